"""Comparison of a program for ranges of sizes with imports at some of the sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto

import tcopt
from memory.guard_pages import guarded
from models.checks import run_imported
from tcopt.support.arithmetic.size_ranges import GivenSize


def check_sized(
    model: ModelProto, dims: Mapping[str, GivenSize], sizes: Sequence[Mapping[str, int]]
) -> None:
    """Run one program at several sizes, next to guard pages, and compare with the interpreter."""
    program = tcopt.compile(model, dims=dims)
    rng = np.random.default_rng(0)
    for values in sizes:
        feeds = {
            info.name: rng.standard_normal(
                [values.get(d.dim_param, d.dim_value) for d in info.type.tensor_type.shape.dim]
            ).astype(np.float32)
            for info in model.graph.input
        }
        (wanted,) = run_imported(model, feeds, dims=values)
        with guarded():
            (found,) = program.run(feeds)
        np.testing.assert_allclose(found, wanted, atol=1e-4)
