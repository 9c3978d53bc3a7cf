"""One program at every level: the interpreters of all levels agree."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

from models import convolutional, transformers
from models.checks import run_reference
from models.light_models import random_inputs
from tcopt.compiler import lower, pipeline
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.frontends.onnx import import_model
from tcopt.interpreters import graph, te
from tcopt.runtime.build import build_program
from tcopt.support.ir.verify import verify
from tcopt.tools.execution import loop_executor

Arrays = list[np.ndarray]

# Largest difference relative to the output's range: float32 sums in different orders, and
# polynomials instead of the C library's functions. Measured below 1e-6.
TOLERANCE = 1e-5

NETWORKS = {
    "residual_net": lambda: convolutional.residual_net(12, 4, 5),
    # With 16 channels, convert-layout uses blocks.
    "residual_net_blocked": lambda: convolutional.residual_net(8, 16, 5),
    "unet": lambda: convolutional.unet(8, 2),
    "mobilenet_v2": lambda: convolutional.mobilenet_v2(8, 0.1, 5),
    "vit_block": lambda: transformers.vit_block(8, 4, 12, 2, 5),
    "bert_block": lambda: transformers.bert_block(5, 12, 2),
}


def run_graph(module: ModuleOp, inputs: Arrays, outputs: Arrays) -> Arrays:
    """Evaluate in numpy, op by op."""
    return graph.run_module(module, inputs)


def run_te(module: ModuleOp, inputs: Arrays, outputs: Arrays) -> Arrays:
    """Evaluate in numpy, over index grids."""
    return te.run_module(module, inputs)


def run_loop(module: ModuleOp, inputs: Arrays, outputs: Arrays) -> Arrays:
    """Run the plain translation; results contain NaN until they are written."""
    results = [np.full_like(output, np.nan) for output in outputs]
    loop_executor.run_module(module, [*inputs, *results])
    return results


def run_kernel(module: ModuleOp, inputs: Arrays, outputs: Arrays) -> Arrays:
    """Run machine code."""
    return build_program(module, weights_of(module)).run(inputs)


RUN = {
    "import": run_graph,
    "graph": run_graph,
    "te": run_te,
    "loop": run_loop,
    "schedule": run_loop,
    "kernel": run_kernel,
}


def assert_close(actual: Arrays, expected: Arrays, level: str) -> None:
    """Assert equal shapes, and values within `TOLERANCE` of the output's range."""
    # The results after the outputs are data checks.
    assert not any(map(np.any, actual[len(expected) :]))
    for ours, theirs in zip(actual, expected, strict=False):
        assert ours.shape == theirs.shape
        error = np.abs(ours - theirs).max() / np.ptp(theirs)
        assert error <= TOLERANCE, f"{level}: {error:.1e}"


@pytest.mark.nightly(daily=["vit_block"])
@pytest.mark.parametrize("name", NETWORKS)
def test_levels_agree(name: str) -> None:
    model: ModelProto = NETWORKS[name]()
    feeds = random_inputs(model)
    inputs, reference = list(feeds.values()), run_reference(model, feeds)
    module = import_model(model)
    first: Arrays | None = None
    for phase in pipeline():
        if phase.name not in RUN:
            continue
        lower(module, [phase])
        verify(module)
        actual = RUN[phase.name](module, inputs, reference)
        first = first or actual[: len(reference)]
        assert_close(actual, first, f"{phase.name} against the imported graph")
        assert_close(actual, reference, f"{phase.name} against onnxruntime")
