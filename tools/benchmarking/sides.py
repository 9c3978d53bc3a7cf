"""Runtimes to measure: loaded models of this compiler or of a peer.

A peer is a function in `_PEERS` by its name, which loads an ONNX model for a number of threads and
returns a `BenchSide`. Peers that are not installed are skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.signature import flatten
from tcopt.support.errors import InputError

Array = NDArray[Any]
Feeds = Mapping[str, Array]


@dataclass
class BenchSide:
    """A model loaded into a runtime.

    Attributes:
        name: of the runtime.
        run: runs one inference on the feeds given at loading; returns the outputs in order.
        load_s: seconds it took to load or compile.
    """

    name: str
    run: Callable[[], Sequence[Any]]
    load_s: float

    def outputs(self) -> list[Array]:
        """Return the results of one inference as copies."""
        return [np.array(value) for value in flatten(list(self.run()))]


Load = Callable[..., Callable[[], Sequence[Any]]]
"""Loads a model, given feeds, a number of threads, and options of the runtime by keyword."""


def _decoded(model: str | bytes) -> Any:
    import onnx

    return onnx.load(model) if isinstance(model, str) else onnx.load_from_string(model)


def _onnxruntime(model: str | bytes, feeds: Feeds, threads: int) -> Callable[[], Sequence[Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = dict(feeds)
    return lambda: session.run(None, given)


def _openvino(
    model: str | bytes, feeds: Feeds, threads: int, precision: str = "f32"
) -> Callable[[], Sequence[Any]]:
    import openvino  # pyright: ignore[reportMissingImports]

    core = openvino.Core()
    options: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = core.compile_model(core.read_model(model), "CPU", options)
    request = compiled.create_infer_request()
    names = {name for port in compiled.inputs for name in port.get_names()}
    given = {name: array for name, array in feeds.items() if name in names}

    def run() -> list[Array]:
        # Results are shared with the request, so that no copy is timed.
        result = request.infer(given, share_inputs=True, share_outputs=True)
        return [result[port] for port in compiled.outputs]

    return run


def _torch(model: str | bytes, feeds: Feeds, threads: int) -> Callable[[], Sequence[Any]]:
    import onnx2torch  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    module: Any = onnx2torch.convert(_decoded(model)).eval()
    tensors = [torch.from_numpy(array.copy()) for array in feeds.values()]

    def run() -> list[Any]:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            results = module(*tensors)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    return run


def _tvm(model: str | bytes, feeds: Feeds, threads: int) -> Callable[[], Sequence[Any]]:
    import tvm  # pyright: ignore[reportMissingImports]
    from tvm import relax  # pyright: ignore[reportMissingImports]
    from tvm.relax.frontend import onnx as frontend  # pyright: ignore[reportMissingImports]

    shapes = {name: list(array.shape) for name, array in feeds.items()}
    module: Any = frontend.from_onnx(_decoded(model), shape_dict=shapes)
    module = relax.get_pipeline("zero")(relax.transform.DecomposeOpsForInference()(module))
    library = tvm.compile(module, target=tvm.target.Target("llvm -mcpu=native"))
    machine = relax.VirtualMachine(library, tvm.cpu())
    arrays = [tvm.runtime.tensor(array) for array in feeds.values()]
    set_threads: Any = tvm.get_global_func("runtime.config_threadpool")

    def run() -> list[Any]:
        set_threads(1, threads)
        results: Any = machine["main"](*arrays)
        # One result is a tensor, several are a list.
        return [results.numpy()] if hasattr(results, "numpy") else [r.numpy() for r in results]

    return run


_PEERS: dict[str, tuple[Load, tuple[str, ...]]] = {
    "onnxruntime": (_onnxruntime, ("onnxruntime",)),
    "openvino": (_openvino, ("openvino",)),
    "torch": (_torch, ("torch", "onnx2torch")),
    "tvm": (_tvm, ("tvm",)),
}
"""The loader of each peer, and the packages it needs."""


def installed_peers() -> list[str]:
    """Return the peers whose packages are installed."""
    return [
        name
        for name, (_, packages) in _PEERS.items()
        if all(find_spec(package) is not None for package in packages)
    ]


def check_peers(names: Sequence[str]) -> list[str]:
    """Check that peers are installed, and return their names.

    Raises:
        InputError: there is no such peer, or its packages are missing.
    """
    for name in names:
        if name not in _PEERS:
            raise InputError(f"there is no peer '{name}'", hint=f"peers are {', '.join(_PEERS)}")
        missing = [p for p in _PEERS[name][1] if find_spec(p) is None]
        if missing:
            raise InputError(
                f"peer '{name}' is not installed", hint=f"pip install {' '.join(missing)}"
            )
    return list(names)


def load_peer(
    name: str, model: str | bytes, feeds: Feeds, threads: int, **options: Any
) -> BenchSide:
    """Load a model into a peer.

    Args:
        model: an ONNX file, or its bytes.
        options: of its loader, such as `precision`, the type in which OpenVINO computes floats.
    Raises:
        InputError: the peer cannot load the model.
    """
    start = time.perf_counter()
    try:
        run = _PEERS[name][0](model, feeds, threads, **options)
    except Exception as error:
        # Each runtime raises its own errors, including plain RuntimeError.
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(f"{name} cannot load the model: {first}") from error
    return BenchSide(name, run, time.perf_counter() - start)
