"""Elements that a thread moves at once: the width of the target's widest load."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import onnx.parser
import pytest

import tcopt
from machines.opencl_device import needs_device
from models.checks import run_imported
from tcopt.backends.named_gpus import named_gpu
from tcopt.runtime.device.program import DeviceProgram
from tcopt.schedules.rules.gpu.facts import gpu_facts

_HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def larger(element: str, shape: str) -> onnx.ModelProto:
    """Elementwise maximum of two arrays."""
    text = f"{element}[{shape}]"
    return onnx.parser.parse_model(
        f"{_HEAD} larger ({text} x, {text} s) => ({text} y) {{ y = Max (x, s) }}"
    )


def test_lanes_fill_the_widest_load():
    facts = gpu_facts(named_gpu("sm_80"))
    assert [facts.lanes(bits) for bits in (64, 32, 16, 8)] == [2, 4, 8, 16]
    narrow = replace(facts, vector_bits=64)
    assert [narrow.lanes(bits) for bits in (128, 64, 32, 16, 8)] == [1, 1, 2, 4, 8]


def test_rows_of_short_numbers_may_have_narrower_vectors():
    facts = gpu_facts(named_gpu("sm_80"))
    assert [facts.lanes(8, row) for row in (48, 24, 12, 6)] == [16, 8, 4, 1]
    assert [facts.lanes(16, row) for row in (24, 12, 6)] == [8, 4, 1]
    assert [facts.lanes(32, row) for row in (24, 6)] == [4, 1]


@pytest.mark.parametrize(
    ("element", "target", "expected"),
    [
        ("float16", "cuda:sm_80", {"ld.global.nc.v4.b32", "st.global.v4.b32"}),
        ("float16", "opencl", {"vload_half8", "vstore_half8"}),
        ("float16", "mali", {"half8", "vload8", "vstore8"}),
        ("int8", "mali", {"char16", "vload16", "vstore16"}),
        ("float", "mali", {"float4", "vload4", "vstore4"}),
    ],
)
def test_kernels_move_128_bits_at_once(element, target, expected):
    program = tcopt.compile(larger(element, "64, 4096"), target, cache=False).program
    assert isinstance(program, DeviceProgram)
    words = r"(?:ld|st)\.global[.\w]*|v(?:load|store)(?:_half)?\d+|\b(?:half|char|float)\d+"
    found = set(re.findall(words, program.source))
    # A device that only stores f16 computes in f32.
    assert expected <= found <= {*expected, "float8"}


@pytest.mark.nightly(every=4)
@needs_device
@pytest.mark.parametrize("element", ["float16", "int8", "uint8", "int16"])
@pytest.mark.parametrize("shape", ["33, 1024", "31, 1036"])
def test_results_of_wide_vectors(element, shape):
    rng = np.random.default_rng(8)
    numbers = rng.integers(-100, 100, (2, *map(int, shape.split(", "))))
    x, s = numbers.astype(element)
    model = larger(element, shape)
    compiled = tcopt.compile(model, "opencl", cache=False)
    (ours,) = compiled.run({"x": x, "s": s})
    np.testing.assert_array_equal(ours, np.maximum(x, s))
    (theirs,) = run_imported(model, {"x": x, "s": s})
    np.testing.assert_array_equal(ours, theirs)
