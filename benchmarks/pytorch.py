"""Models of PyTorch by tcopt, by Inductor and by eager execution: `python benchmarks/pytorch.py`.

Networks with random weights are compiled by `torch.compile` without graph breaks, run in turns on
one thread, and compared with eager execution. Needs the extra `torch` and a C++ compiler.
"""

from __future__ import annotations

import argparse
import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TCOPT_NUM_THREADS"] = "1"
os.environ["TCOPT_CACHE"] = "0"
os.environ["TCOPT_WORKERS"] = "0"
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import pytorch_networks as networks
import pytorch_sequences as sequences
import tcopt.torch

RESULTS = Path(__file__).parent / "results" / "pytorch" / "networks.json"


def image(side: int) -> tuple[Tensor, ...]:
    return (torch.randn(1, 3, side, side),)


def tokens(length: int = 32, batch: int = 2) -> tuple[Tensor, ...]:
    return (torch.randint(1, 1000, (batch, length)),)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "resnet18": (networks.resnet18, image(128)),
    "resnet bottleneck": (networks.resnet_bottleneck, image(128)),
    "vgg": (networks.vgg, image(112)),
    "mobilenet": (networks.mobilenet, image(128)),
    "efficientnet": (networks.efficientnet, image(128)),
    "shufflenet": (networks.shufflenet, image(128)),
    "densenet": (networks.densenet, image(128)),
    "convnext": (networks.convnext, image(128)),
    "unet": (partial(networks.UNet, bilinear=False), image(96)),
    "unet bilinear": (partial(networks.UNet, bilinear=True), image(96)),
    "autoencoder": (networks.autoencoder, image(64)),
    "wavenet": (networks.WaveNet, (torch.randn(1, 1, 1024),)),
    "pointnet": (networks.PointNet, (torch.randn(4, 3, 512),)),
    "lstm": (partial(sequences.Recurrent, nn.LSTM), tokens()),
    "gru": (partial(sequences.Recurrent, nn.GRU), tokens()),
    "transformer encoder": (sequences.Encoder, tokens()),
    "transformer": (sequences.Translator, (torch.randn(2, 24, 128), torch.randn(2, 16, 128))),
    "gpt": (sequences.gpt, tokens()),
    "llama": (sequences.llama, tokens()),
    "vit": (sequences.ViT, image(64)),
    "mixer": (sequences.mixer, image(64)),
    "swin": (sequences.Swin, image(64)),
    "dlrm": (sequences.Recommender, (torch.randn(32, 13), torch.randint(0, 500, (32, 4, 6)))),
}


def measure(
    make: Callable[[], nn.Module],
    inputs: tuple[Tensor, ...],
    seconds: float,
    backends: Sequence[str],
) -> dict[str, Any]:
    """Return the figures of one network: CPU seconds, milliseconds, and relative errors."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = make().eval()
    _settle(model, inputs)
    runs: dict[str, Callable[..., Tensor]] = {"eager": model}
    found: dict[str, Any] = {}
    expected = model(*inputs)
    for name in backends:
        backend = tcopt.torch.backend if name == "tcopt" else name
        runs[name] = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
        start = _cpu_seconds()
        with warnings.catch_warnings():
            warnings.simplefilter("error", tcopt.torch.FallbackWarning)
            result = runs[name](*inputs)
        found[f"{name} compile"] = round(_cpu_seconds() - start, 1)
        error = (result - expected).abs().max() / expected.abs().max()
        found[f"{name} error"] = float(f"{error.item():.1e}")
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["eager"]) < 10:
        for name, run in runs.items():
            start = time.thread_time()
            run(*inputs)
            times[name].append(time.thread_time() - start)
    for name, each in times.items():
        found[f"{name} ms"] = round(1e3 * statistics.median(each), 3)
    return found


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the compilers that it has started."""
    return sum(os.times()[:4])


def _settle(model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Give batch norms the statistics of their inputs."""
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    for layer in norms:
        layer.momentum = None
        layer.train()
    if norms:
        model(*inputs)
    model.eval()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="networks; all by default")
    parser.add_argument("--seconds", type=float, default=4, help="time of the runs of a network")
    parser.add_argument("--backends", nargs="+", default=["tcopt", "inductor"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # Without it, Dynamo leaves recurrent layers to eager execution.
    torch._dynamo.config.allow_rnn = True
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in arguments.names or NETWORKS:
        try:
            with torch.no_grad():
                stored[name] = measure(*NETWORKS[name], arguments.seconds, arguments.backends)
        # Networks that fail are part of the result.
        except Exception as error:
            stored[name] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
        print(name, stored[name], flush=True)
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    return int(any("failed" in each for each in stored.values()))


if __name__ == "__main__":
    sys.exit(main())
