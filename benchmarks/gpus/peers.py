"""Other implementations on a CUDA device: PyTorch eager and compiled, fused attention, Triton.

PyTorch runs with TF32 off, and as a CUDA graph, as our programs do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from gpus.sides import COMPILED, EAGER, FUSED_ATTENTION, PEERS, TRITON
from torch_graph import TorchGraph

if TYPE_CHECKING:
    from gpus.prepare import Prepared

Tensors = Mapping[str, Any]

REPEATED_S, MOST_REPEATS = 1e-3, 128
"""Length of a graph of repeated runs, and the most runs of one."""

Run = Callable[[], Sequence[Any]]


@dataclass
class PeerSide:
    """A peer that is ready to run on its inputs.

    Attributes:
        seconds: the time of a run, of a number of them one after the other.
        results: of the last run.
    """

    seconds: Callable[[int], float]
    results: Callable[[], list[np.ndarray]]


class Peers:
    """The peers of this machine.

    Args:
        torch: the package with a CUDA device, or None.
        triton: whether Triton is there, too.
    """

    def __init__(self, torch: Any = None, *, triton: bool = False):
        self.torch = torch
        self._names = set(PEERS if torch is not None else ())
        if not triton:
            self._names.discard(TRITON)

    def has(self, name: str) -> bool:
        return name in self._names

    def load(self, name: str, prepared: Prepared) -> PeerSide:
        """A peer on the inputs of a measurement, run once.

        Raises:
            KeyError: it has no form of the model.
        """
        network, tensors = self._network(prepared, prepared.item.dtype)
        run: Run = lambda: network.run(tensors)  # noqa: E731
        if name == COMPILED:
            compiled = self.torch.compile(network.run)
            run = lambda: compiled(tensors)  # noqa: E731
        elif name == FUSED_ATTENTION:
            run = self._fused_attention(tensors)
        elif name == TRITON:
            from gpus.triton_kernels import triton_run

            run = triton_run(self.torch, prepared.item.build(), tensors, network)
        else:
            assert name == EAGER
        return self._graph(run)

    def reference(self, prepared: Prepared) -> list[np.ndarray]:
        """Results in f32, for machines without onnxruntime."""
        network, tensors = self._network(prepared, "f32")
        return _arrays(network.run(tensors))

    def _network(self, prepared: Prepared, dtype: str) -> tuple[TorchGraph, Tensors]:
        network = TorchGraph(self.torch, prepared.item.build(), dtype)
        tensors = {name: network.tensor(array) for name, array in prepared.feeds.items()}
        return network, tensors

    def _fused_attention(self, tensors: Tensors) -> Run:
        attend = self.torch.nn.functional.scaled_dot_product_attention

        def run() -> Sequence[Any]:
            merged = attend(tensors["q"], tensors["k"], tensors["v"]).transpose(1, 2)
            return [merged.reshape(*merged.shape[:2], -1)]

        return run

    def _graph(self, run: Run) -> PeerSide:
        """Capture a run as a CUDA graph."""
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                run()
        torch.cuda.synchronize()

        def captured(count: int) -> tuple[Any, Sequence[Any]]:
            graph = torch.cuda.CUDAGraph()
            results: Sequence[Any] = ()
            with torch.no_grad(), torch.cuda.graph(graph):
                for _ in range(count):
                    results = run()
            return graph, results

        def replayed(graph: Any, count: int) -> float:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(count):
                graph.replay()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1e-3 / count

        one, results = captured(1)
        replayed(one, 1)
        # Short runs are repeated within a graph, as ours are: the host's replays would limit them.
        repeats = max(min(int(REPEATED_S / max(replayed(one, 1), 1e-6)), MOST_REPEATS), 1)
        several = captured(repeats)[0] if repeats > 1 else one

        def seconds(runs: int) -> float:
            return replayed(several, ceil(runs / repeats)) / repeats

        return PeerSide(seconds, lambda: _arrays(results))


def _arrays(results: Sequence[Any]) -> list[np.ndarray]:
    return [result.double().cpu().numpy() for result in results]


def find_peers() -> Peers:
    """PyTorch with a CUDA device and TF32 off, and Triton, if they are installed."""
    try:
        import torch
    except ImportError:
        return Peers()
    if not torch.cuda.is_available():
        return Peers()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    try:
        import triton  # noqa: F401
    except ImportError:
        return Peers(torch)
    return Peers(torch, triton=True)
