"""Register tiles for Arm: the reduction loop keeps all sums in registers."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from checks.cpu_kernels import data, te_module
from tcopt.backends.llvm.machine.host import named_target
from tcopt.backends.llvm.objects import emit_assembly
from tcopt.compiler import Phase, lower, pipeline
from tcopt.dialects.graph import ConstantOp
from tcopt.dialects.graph.core.types import like
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.target import CpuTargetAttr
from tcopt.passes.graph.packing.panels import grouped_form

PHASES = {phase.name: phase for phase in pipeline()}


@pytest.mark.parametrize(
    ("name", "instruction", "element"),
    [
        ("cortex-a72", "fmla", np.float32),
        ("neoverse-v1", "fmla", np.float32),
        ("neoverse-v1", "bfdot", ml_dtypes.bfloat16),
    ],
)
def test_sums_stay_in_registers(name: str, instruction: str, element: type) -> None:
    shapes = (1, 4, 16, 30, 4), (4, 4, 3, 3, 4, 4)
    x, w = (data(*shape).astype(element) for shape in shapes)
    op = BlockedConvOp(
        *(ConstantOp.weight("v", like(each)).results[0] for each in (x, w)), result_element=f32
    )
    form = grouped_form(op, 2) if element is not np.float32 else None
    steps = None if form is None else form()
    values = dict(zip(op.operands, (x, w), strict=True))
    for step in (steps or ())[:-1]:
        (values[step.results[0]],) = step.evaluate(*(values[v] for v in step.operands))
    conv = steps[-1] if steps else op
    operands = [np.ascontiguousarray(values[v]) for v in conv.operands]
    module = te_module(operands, conv.tensor_expression, CpuTargetAttr.of(named_target(name)))
    lower(module, [Phase("te", "te-inline,merge-axes"), PHASES["loop"]])
    lower(module, [Phase("schedule", "schedule"), Phase("apply", "apply-schedule")])
    lower(module, [PHASES["kernel"].without("plan-memory")])
    text = emit_assembly(module, named_target(name))
    hot = max(re.split(r"^\.L\w+:", text, flags=re.MULTILINE), key=lambda e: e.count(instruction))
    assert hot.count(instruction) >= 24
    loop = hot[: hot.rindex(instruction)]
    loop = loop[loop.index(instruction) :]
    assert not re.search(r"^\s*(ld|st)[rp]\s+q.*\[sp", loop, re.MULTILINE)
