"""Graphs with sizes, lowered for whole ranges, compute what graphs of these sizes compute."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from models.sized_models import SIZED_MODELS, SizedModel
from tcopt.compiler.driver import lower
from tcopt.compiler.pipeline import pipeline
from tcopt.dialects.graph.core.types import numpy_dtype, shape_of, type_of
from tcopt.frontends.onnx import import_model
from tcopt.interpreters.graph import run_module as run_graph
from tcopt.interpreters.te import run_module as run_te
from tcopt.passes.fix_sizes import fix_sizes
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.phases import up_to


@pytest.mark.parametrize("case", SIZED_MODELS.values(), ids=SIZED_MODELS)
def test_lowered_graphs(case: SizedModel):
    model = case.build()
    whole = import_model(model, dims=case.dims)
    lower(whole, up_to(pipeline("cpu"), "te"))
    verify(whole)
    for numbers in case.values:
        plain = import_model(model, dims={**case.dims, **numbers})
        feeds = _feeds(plain)
        fixed = whole.clone()
        fix_sizes(fixed, numbers)
        verify(fixed)
        for mine, wanted in zip(run_te(fixed, feeds), run_graph(plain, feeds), strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=2e-4, atol=2e-5)


def _feeds(module: ModuleOp) -> list[np.ndarray]:
    (main,) = (f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data == "main")
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(shape_of(x)).astype(numpy_dtype(type_of(x).element_type))
        for x in main.body.block.args
    ]
