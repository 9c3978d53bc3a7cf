"""Random networks through the whole pipeline match numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from checks.cpu_kernels import everything_parallel, target
from networks.random_graphs import networks
from running.examples import examples
from tcopt.compiler import lower, pipeline
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.interpreters.graph import run_module
from tcopt.runtime.build import build_program

# Relative to an output's largest value: float32 sums in different orders, some with cancellation.
TOLERANCE = 1e-4


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("bits", [128, None])
@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(case=networks())
def test_native_code_computes_the_same(bits, case) -> None:
    module, arrays = case
    expected = run_module(module.clone(), arrays, weights=weights_of(module))
    module.attributes[TARGET_ATTRIBUTE] = target(bits)
    graph, *rest = [p for p in pipeline() if p.passes]
    with everything_parallel(bits is None):
        lower(module, [graph.without("set-target"), *rest])
    module.verify()
    actual = build_program(module, weights_of(module) or {}).run(arrays)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.shape == theirs.shape
        scale = max(1.0, float(np.abs(theirs).max()))
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * scale)
