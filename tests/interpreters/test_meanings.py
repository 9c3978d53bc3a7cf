"""Intrinsics that lower to third-party ops: reductions and elementwise ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def

from tcopt.dialects.intrinsics import INTRINSICS, Intrinsic, register
from tcopt.dialects.te import api as te
from tcopt.interpreters.meanings import MEANINGS, meaning
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.support.errors import InputError
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.tools.execution.loop_executor import run_func


@irdl_op_definition
class GroupDotOp(IRDLOperation):
    """acc + the sum of a[p] * b[p]"""

    name = "test.group_dot"
    acc = operand_def()
    a = operand_def()
    b = operand_def()
    result = result_def()

    def __init__(self, acc: SSAValue, a: SSAValue, b: SSAValue):
        super().__init__(operands=[acc, a, b], result_types=[acc.type])


@irdl_op_definition
class TripleOp(IRDLOperation):
    """3 x"""

    name = "test.triple"
    x = operand_def()
    result = result_def()

    def __init__(self, x: SSAValue):
        super().__init__(operands=[x], result_types=[x.type])


@contextmanager
def registered(
    shapes: dict[str, tuple[tuple[int, ...], str]],
    behaviour: Callable[..., te.Tensor],
    lowering: Callable[..., list[IRDLOperation]],
) -> Iterator[str]:
    name = "test_intrinsic"
    register(Intrinsic(name, shapes, behaviour=behaviour, lowering=lowering, requires=[]))
    try:
        yield name
    finally:
        del INTRINSICS[name]


def _dot(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    p = te.reduce_axis(4, "p")
    return te.compute((), lambda: te.sum(a[p] * b[p], axis=p))


def _lowered(sch: Schedule) -> None:
    module = ModuleOp([sch.func])
    for each in parse_pipeline("lower-intrinsics,lower-blocks,vectorize"):
        each.apply(Context(), module)


PAIR = {"a": ((4,), "f32"), "b": ((4,), "f32")}


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_reducing_op(vectorized: bool) -> None:
    """The behaviour receives whole vectors, with an extra leading dimension in a vectorised
    loop."""
    meaning(GroupDotOp)(lambda _, acc, a, b: acc + (a * b).sum(-1))
    x = te.placeholder((8,), "f32", name="x")
    w = te.placeholder((8, 8), "f32", name="w")
    k = te.reduce_axis(8, "k")
    y = te.compute((8,), lambda j: te.sum(x[k] * w[j, k], axis=k), name="y")
    try:
        with registered(PAIR, _dot, lambda acc, a, b: [GroupDotOp(acc, a, b)]) as name:
            sch = Schedule(lower_function(te.func("f", [x, w], y)))
            j, k = sch.get_loops("y")
            ko, ki = sch.split(k, factors=[None, 4])
            jo, ji = sch.split(j, factors=[None, 4])
            sch.reorder(jo, ko, ji, ki)
            sch.decompose_reduction("y", ko)
            sch.tensorize(ki, name)
            if vectorized:
                sch.vectorize(ji)
            _lowered(sch)
        assert any(isinstance(op, GroupDotOp) for op in sch.func.walk())
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(s).astype(np.float32) for s in ((8,), (8, 8)))
        result = run_func(sch.func, [a, b, np.empty(8, np.float32)])[-1]
        np.testing.assert_allclose(result, b @ a, rtol=1e-5)
    finally:
        del MEANINGS[GroupDotOp.name]


def test_an_elementwise_intrinsic() -> None:
    """The output is only written, so the lowering receives the inputs alone."""
    meaning(TripleOp)(lambda _, x: 3 * x)
    x = te.placeholder((8,), "f32", name="x")
    y = te.compute((8,), lambda i: x[i] * 3.0, name="y")
    shape = {"x": ((4,), "f32")}
    try:
        with registered(
            shape,
            lambda x: te.compute((4,), lambda i: x[i] * 3.0),
            lambda x: [TripleOp(x)],
        ) as name:
            sch = Schedule(lower_function(te.func("f", [x], y)))
            _, inner = sch.split(*sch.get_loops("y"), factors=[None, 4])
            sch.tensorize(inner, name)
            _lowered(sch)
        values = np.arange(8, dtype=np.float32)
        result = run_func(sch.func, [values, np.empty(8, np.float32)])[-1]
        np.testing.assert_array_equal(result, 3 * values)
    finally:
        del MEANINGS[TripleOp.name]


def _largest(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    p = te.reduce_axis(4, "p")
    return te.compute((), lambda: te.max(a[p] * b[p], axis=p))


def _two_stages(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    made = te.compute((4,), lambda i: a[i] * b[i])
    return te.compute((4,), lambda i: made[i] + 1.0)


def _square(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    return te.compute((4,), lambda i: a[i] * a[i] + b[i])


def _half(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    return te.compute((4,), lambda i: a[i])


@pytest.mark.parametrize("behaviour", [_largest, _two_stages, _square, _half, lambda a, b: a])
def test_a_behaviour_that_nothing_matches_is_refused(
    behaviour: Callable[..., te.Tensor],
) -> None:
    """The error is raised at registration and names the intrinsic."""
    refused = pytest.raises(InputError, match="test_intrinsic")
    with refused, registered(PAIR, behaviour, lambda *_: []):
        pass
    assert "test_intrinsic" not in INTRINSICS
