"""Runs benchmarks/gpu.py on the driver without a device, in a process of its own.

    python tests/machines/measured_gpu.py ROWS.jsonl

The benchmarks have packages with names of the tests' own, so they are first on the path. Prints
the exit codes of the runs as JSON.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from onnx import ModelProto

import gpu
from gpus.cases import convolution_and, product
from gpus.items import Item
from machines.cuda_machine import CudaMachine, cuda_machine
from tcopt.runtime.device.cuda import cuda_device

GONE = 700


def broken() -> ModelProto:
    """A model that cannot be built."""
    raise ValueError("no such\nmodel")


def items() -> list[Item]:
    """A case of each outcome; the product finds a device that refuses everything."""
    square = Item("products", "square", partial(product, [8, 8], [8, 8]), "8x8", "f16")
    net = Item("fusion", "net", partial(convolution_and, 4, 4, 1), "4x4")
    return [
        net,
        Item("fusion", "net", net.build, "4x4", variant="fusion"),
        Item("layers", "broken", broken, "not built"),
        square,
        Item("memory", "unsupported", square.build, "8x8", "int4"),
    ]


def main(output: str) -> None:
    """Measure in steps, as a person would who is interrupted."""
    codes: list[int] = []
    with cuda_machine() as machine:
        gpu.small_items = items

        def measure(*more: str, processes: int = 0) -> None:
            common = ["--small", "--rounds", "1", "--output", output, *more]
            common += ["--processes", str(processes)]
            codes.append(gpu.measure(gpu._parser().parse_args(common)))

        measure("--minutes", "0")
        measure("--resume", "--filter", "fusion|roofs", processes=1)
        before = len(machine.launches)
        measure("--resume", "--filter", "fusion|roofs")
        assert len(machine.launches) == before, "measured again"
        gpu.note = partial(_lose, machine)
        measure("--resume")
        machine.failing = {}
        cuda_device.cache_clear()  # as in a new process
        gpu.note = lambda path, key: None
        measure("--resume")
    codes.append(gpu.main(["--report", "--output", output]))
    print(json.dumps(codes))


def _lose(machine: CudaMachine, path: Any, key: str) -> None:
    if key.startswith("products/"):
        machine.failing = {"cuMemAllocAsync": GONE, "cuMemcpyHtoDAsync_v2": GONE}


if __name__ == "__main__":
    main(sys.argv[1])
