"""Comparison of a program for ranges of sizes with imports at some of the sizes, or onnxruntime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from onnx import ModelProto

import tcopt
from memory.guard_pages import guarded
from models.checks import TOLERANCE, assert_close, reference_of, run_imported
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.frontends.onnx import import_model
from tcopt.interpreters.graph import run_module
from tcopt.passes.fix_sizes import fix_sizes, free_symbols
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


def check_at_sizes(
    model: ModelProto,
    dims: Mapping[str, GivenSize],
    cases: Iterable[tuple[Mapping[str, int], Mapping[str, np.ndarray]]],
) -> None:
    """Import once for ranges, and compare with onnxruntime at several sizes.

    Args:
        cases: values of sizes, and feeds.
    """
    module = import_model(model, dims=dims)
    module.verify()
    names = {symbol.name for symbol in free_symbols(module)}
    reference = reference_of(model)
    for values, feeds in cases:
        fixed = module.clone()
        fix_sizes(fixed, {name: values[name] for name in names})
        found = run_module(fixed, list(feeds.values()), weights=weights_of(module))
        wanted = reference(feeds)
        assert not any(check.any() for check in found[len(wanted) :]), values
        for ours, theirs in zip(found, wanted, strict=False):
            assert_close(ours, theirs, TOLERANCE)
