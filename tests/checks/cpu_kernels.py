"""Run one function natively, scheduled by the CPU rules, and compare it with numpy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.rewriter import Rewriter

from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.machine.host import default_target
from tcopt.compiler import Phase, lower, pipeline
from tcopt.dialects.graph import ConstantOp, GraphOp
from tcopt.dialects.graph.core.types import like
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import SequenceOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, CpuTargetAttr
from tcopt.dialects.te import api as te
from tcopt.schedules.passes.schedule import find_schedule, spaces_of
from tcopt.schedules.rules.cpu import granularity
from tcopt.schedules.rules.rule import AnyRule, facts_of, rules_for
from tcopt.schedules.spaces.space import Choice, Space
from tcopt.targets.cpu import MACHINES

# Tolerance for float32 sums of a few hundred terms of magnitude one, in another order than numpy's.
TOLERANCE = 2e-5

_MARGIN = 80
_PHASES = {phase.name: phase for phase in pipeline()}
_BEFORE = [Phase("te", "te-inline"), _PHASES["loop"]]
_SCHEDULE = _PHASES["schedule"]
_KERNEL = _PHASES["kernel"].without("plan-memory")

Expression = Callable[..., te.Tensor | tuple[te.Tensor, ...]]
Choose = Callable[[list[tuple[AnyRule, Space]]], tuple[str, Choice]]
"""Chooses one of the rules that accept a function, and a point of its space."""


def target(bits: int | None = None) -> CpuTargetAttr:
    """Return this machine as a target, restricted to the vector width and 16 registers of a smaller
    CPU."""
    host = default_target()
    if bits is not None and bits <= host.vector_bits:
        host = replace(host, vector_bits=bits, registers=16, cores=2)
    return CpuTargetAttr.of(host)


AVX2 = CpuTargetAttr.of(replace(MACHINES["haswell"], cores=2))
"""A fixed target for tests that check the form of a schedule."""


@contextmanager
def everything_parallel(on: bool = True):
    """Rules make loops parallel whatever the work, so that small shapes cover parallel code.

    Nothing is cached, as cache keys do not cover patched modules.
    """
    least = 0 if on else granularity.PARALLEL_STARTS
    with (
        mock.patch.object(granularity, "PARALLEL_STARTS", least),
        mock.patch.dict(os.environ, TCOPT_CACHE="0"),
    ):
        yield


def te_module(
    arrays: Sequence[np.ndarray], expression: Expression, machine: CpuTargetAttr
) -> ModuleOp:
    """Return a module with one `te.func @f`: `expression` of a placeholder for each array."""
    elements = [like(array).element_type for array in arrays]
    inputs = [
        te.placeholder(array.shape, element, f"x{n}")
        for n, (array, element) in enumerate(zip(arrays, elements, strict=True))
    ]
    outputs = expression(*inputs)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    return ModuleOp([te.func("f", inputs, outputs)], {TARGET_ATTRIBUTE: machine})


def scheduled(
    arrays: Sequence[np.ndarray], expression: Expression, machine: CpuTargetAttr
) -> tuple[ModuleOp, str]:
    """Return the scheduled module and the name of the rule that wrote the schedule."""
    module = te_module(arrays, expression, machine)
    lower(module, _BEFORE)
    lower(module, [Phase("schedule", "schedule")])
    (sequence,) = (op for op in module.ops if isinstance(op, SequenceOp))
    rule = sequence.attributes["rule"]
    assert isinstance(rule, StringAttr)
    lower(module, [Phase("apply", "apply-schedule")])
    module.verify()
    return module, rule.data


def chosen(
    arrays: Sequence[np.ndarray],
    expression: Expression,
    machine: CpuTargetAttr,
    choose: Choose,
) -> ModuleOp:
    """Return the module scheduled by one rule, with knobs that `choose` selects from the space."""
    module = te_module(arrays, expression, machine)
    lower(module, _BEFORE)
    rules, facts = rules_for("cpu", templates=True), facts_of(machine)
    for function in list(module.ops):
        if isinstance(function, FuncOp):
            rule, choice = choose(spaces_of(function, rules, facts))
            made = find_schedule(function, rules, facts, rule=rule, choice=choice)
            assert made is not None
            Rewriter.replace_op(function, made.func, [])
    module.verify()
    return module


def run(
    arrays: Sequence[np.ndarray],
    expression: Expression,
    outputs: Sequence[np.ndarray],
    bits: int | None = None,
    choose: Choose | None = None,
) -> list[np.ndarray]:
    """Run native code and return results with the shapes and types of `outputs`.

    Each array is misaligned and surrounded by NaN: out-of-bounds reads show in the results, and
    out-of-bounds writes are detected here.
    """
    if choose is None:
        module, _ = scheduled(arrays, expression, target(bits))
    else:
        module = chosen(arrays, expression, target(bits), choose)
    lower(module, [_KERNEL])
    module.verify()
    function = compile_module(module).function("f")
    fields = [_field(array) for array in (*arrays, *outputs)]
    places = [place for _, place in fields]
    for place, array in zip(places, arrays, strict=False):
        place[...] = array
    # Buffers hold signless integers.
    unsigned = [place.dtype.kind == "u" for place in places]
    function(
        *(
            place.view(place.dtype.name[1:]) if each else place
            for place, each in zip(places, unsigned, strict=True)
        )
    )
    for field, place in fields:
        size = place.size
        outside = np.concatenate([field[: _MARGIN + 1], field[_MARGIN + 1 + size :]])
        assert outside.tobytes() == _poison(place.dtype, outside.size).tobytes()
    for place, array in zip(places, arrays, strict=False):
        np.testing.assert_array_equal(place, array)
    return places[len(arrays) :]


def check(
    arrays: Sequence[np.ndarray],
    expression: Expression,
    *expected: Any,
    bits: int | None = None,
    tolerance: float = TOLERANCE,
    choose: Choose | None = None,
) -> None:
    """Assert that native code computes `expected` within `tolerance` of its largest value."""
    wanted = [np.asarray(value) for value in expected]
    for actual, value in zip(run(arrays, expression, wanted, bits, choose), wanted, strict=True):
        if value.dtype.kind != "f":
            np.testing.assert_array_equal(actual, value)
            continue
        scale = max(1.0, float(np.abs(value).max(initial=0.0)))
        np.testing.assert_allclose(actual, value, rtol=tolerance, atol=tolerance * scale)


def check_op(
    make: Callable[..., GraphOp], *arrays: np.ndarray, bits: int | None = None, **options: Any
) -> None:
    """Run `check` on the tensor expression of one graph op, against its numpy evaluation."""
    op = make(*(ConstantOp.weight("v", like(array)).results[0] for array in arrays))
    op.verify()
    check(arrays, op.tensor_expression, *op.evaluate(*arrays), bits=bits, **options)


def kernel_text(make: Callable[..., GraphOp], *arrays: np.ndarray, bits: int | None = None) -> str:
    """Return the kernel of one graph op."""
    op = make(*(ConstantOp.weight("v", like(array)).results[0] for array in arrays))
    module, _ = scheduled(arrays, op.tensor_expression, target(bits))
    lower(module, [_KERNEL])
    return str(module)


def data(*shape: int, seed: int = 0) -> np.ndarray:
    """Return normally distributed values from a fixed seed."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def _poison(dtype: np.dtype, count: int) -> np.ndarray:
    return np.full(count * dtype.itemsize, 0xFF, np.uint8).view(dtype)


def _field(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    field = _poison(array.dtype, array.size + 2 * _MARGIN + 1)
    return field, field[_MARGIN + 1 : _MARGIN + 1 + array.size].reshape(array.shape)
