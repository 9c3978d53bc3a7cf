"""Random quantised networks on the CPU and the accelerator have the CPU's integers, bit by bit.

More networks: `python tests/vdla/test_random_networks.py 0 200`.
"""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime
import pytest

import tcopt
from models.quantised_networks import random_network
from tcopt.runtime.program import Program

TARGETS = ("vdla:vta", "vdla:pynq", "vdla:vta", "vdla")
"""Machines, selected by seed; the last one stores 32-bit sums, so it supports any scale."""


def compare(seed: int) -> int:
    """Compile a network for both processors, with every supported operator on the accelerator or
    only those that are faster there; return the number of calls."""
    number = seed % len(TARGETS)
    has_sums = TARGETS[number] == "vdla"
    element = np.uint8 if has_sums and seed % 8 == number else np.int8
    source = random_network(seed, shifts=not has_sums, element=element)
    shape = [d.dim_value for d in source.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": 2 * np.random.default_rng(seed).normal(size=shape).astype(np.float32)}
    expected = tcopt.compile(source, cache=False, workers=0).run(feeds)
    passes = {"instead-of:partition": "partition{all-of-them=true}"} if seed % 3 else {}
    model = tcopt.compile(source, TARGETS[number], cache=False, workers=0, passes=passes)
    for found, value in zip(model.run(feeds), expected, strict=True):
        np.testing.assert_array_equal(found, value)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(source.SerializeToString(), options)
    if not has_sums:
        # Scales are powers of two: all floats are exact but means, which may differ by a step.
        for found, value in zip(expected, session.run(None, feeds), strict=True):
            assert np.mean(found != value) < 0.01
    assert isinstance(model.program, Program)
    return len(model.program.calls)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1, 2, 6, 7, 12])
def test_random_networks_are_what_the_cpu_computes(seed: int) -> None:
    """Sums of branch results, intermediate results, several users of a value."""
    assert compare(seed) > 0


if __name__ == "__main__":
    for each in range(*map(int, sys.argv[1:3])):
        print(each, compare(each), flush=True)
