"""Readability of the OpenCL C of a whole model."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import tcopt
from models import convolutional
from tcopt.backends.opencl.emit.functions import FUNCTIONS
from tcopt.backends.opencl.emit.names import taken_names
from tcopt.runtime.device.program import DeviceProgram

KERNEL = re.compile(
    r"// (?P<node>.+)\n__kernel .+\nvoid (?P<name>\w+)\([^{]*\{\n(?P<body>[\s\S]*?)\n\}\n"
)
DECLARED = re.compile(
    r"^ *(?:const |__local )*(?:bool|char|float|int|long|uint)\d* (\w+)[;\[ ]", re.M
)


@pytest.mark.nightly(daily=["0"])
@pytest.mark.parametrize("workers", [0, 1])
def test_kernels_read_like_the_model(workers: int) -> None:
    """Kernels are readable even if worker processes compile them."""
    model = convolutional.vgg_like(8, 4)
    program = tcopt.compile(model, "opencl", cache=False, workers=workers).program
    assert isinstance(program, DeviceProgram)
    nodes = {node.name for node in model.graph.node}
    kernels = [found for source in program.sources for found in KERNEL.finditer(source.text)]
    assert len(kernels) == program.source.count("__kernel") >= 4
    for kernel in kernels:
        assert kernel["node"] in nodes
        operator = kernel["node"].split("_")[0].lower()
        assert {"gemm": "matmul", "maxpool": "pool"}.get(operator, operator) in kernel["name"]
        check_indentation(kernel["body"])
        uses = Counter(re.findall(r"\w+", kernel["body"]))
        declared = DECLARED.findall(kernel["body"])
        assert declared and not [name for name in declared if uses[name] < 2]


def check_indentation(body: str) -> None:
    """Indentation is two spaces for each level of braces."""
    depth = 1
    for line in body.splitlines():
        text = line.strip()
        depth -= text.startswith("}")
        assert not text or line == "  " * depth + text
        depth += text.endswith("{")


def test_functions_are_taken_names() -> None:
    assert taken_names().issuperset(FUNCTIONS.values())
