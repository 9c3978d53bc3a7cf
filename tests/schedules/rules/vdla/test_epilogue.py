"""Epilogues of convolutions on the accelerator's ALU compute the integers of the graph."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType
from xdsl.utils.hints import isa

from programs.accelerator_programs import (
    BYTES,
    CLIP,
    HALF_TO_EVEN,
    RESIDUAL,
    TO_LOOP,
    Conv,
    module_text,
    program_of,
)
from tcopt.backends.accelerator.code import code_for
from tcopt.backends.accelerator.report import report_of
from tcopt.backends.vdla.machines import named_machine
from tcopt.compiler import Phase, lower
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, VdlaTargetAttr
from tcopt.dialects.vdla import AluOp
from tcopt.interpreters.graph import run_module
from tcopt.schedules import Schedule
from tcopt.schedules.rules.vdla.contraction import choose_tile
from tcopt.schedules.rules.vdla.roles import VdlaRoles, find_roles
from tcopt.schedules.rules.vdla.timing import Estimator
from tcopt.support.pipelines.running import new_context
from tcopt.support.syntax.parsing import LocatedParser


def machine(name: str = "vta", **facts: int | str) -> VdlaTargetAttr:
    return VdlaTargetAttr.of_facts({**named_machine(name).facts(), **facts})


CASES = {
    "bias, scale, limits": (Conv(9, 11, 2, 3, 3, pad=1), CLIP + BYTES, "%q", machine()),
    "half to even": (Conv(6, 7, 3, 2, 1), HALF_TO_EVEN + BYTES, "%q", machine()),
    "a residual": (Conv(9, 8, 2, 2, 3, stride=2, pad=1), RESIDUAL + BYTES, "%q", machine()),
    "no sums alone": (
        Conv(6, 5, 1, 2, 3, pad=1),
        CLIP,
        "%c",
        machine(results="i32"),
    ),
    "little memory": (
        Conv(9, 12, 2, 3, 3, pad=1),
        HALF_TO_EVEN + BYTES,
        "%q",
        machine(inp_bytes=1024, wgt_bytes=4096, acc_bytes=2048),
    ),
    "registers apart": (Conv(7, 7, 2, 2, 3, pad=1), RESIDUAL + BYTES, "%q", machine("pynq")),
    "another unit": (
        Conv(6, 7, 2, 3, 3, pad=1, block=8),
        CLIP + BYTES,
        "%q",
        machine(block_in=8, block_out=8, wgt_bytes=4096, acc_bytes=4096, inp_bytes=4096),
    ),
}


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, rng: np.random.Generator) -> None:
    """Results equal the graph's, in stream order and in other orders that tokens allow."""
    conv, steps, result, target = CASES[name]
    module = LocatedParser(new_context(), module_text(conv, steps, result), name).parse_module()
    module.attributes[TARGET_ATTRIBUTE] = target
    x, w, y = conv.shapes
    feeds = [rng.integers(-128, 128, shape, np.int8) for shape in (x, w)]
    bias = (1, conv.outputs, 1, 1, conv.block)
    feeds += [rng.integers(-5000, 5000, bias, np.int32), rng.integers(-128, 128, y, np.int8)]
    (expected,) = run_module(module, feeds)
    program = program_of(module)
    assert any(isinstance(op, AluOp) for op in program.steps)
    lower(program.parent_op(), [Phase("tokens", "order-units,accelerator-check")])  # pyright: ignore
    code = code_for(program, target)
    for seed in (None, 1):
        found = np.zeros(expected.shape, expected.dtype)
        code.run([*arguments(program, feeds), found], seed)
        np.testing.assert_array_equal(found, expected)


def arguments(program: ProgramOp, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """Convert the graph's inputs to the shapes of a program's arguments."""
    types = [arg.type for arg in program.body.block.args][:-1]
    found = list(zip(feeds, ("x", "w", "b", "y"), strict=True))
    named = {arg.name_hint: arg.type for arg in program.body.block.args}
    kept = [array for array, name in found if name in named]
    shapes = [type_.get_shape() for type_ in types if isa(type_, MemRefType)]
    return [array.reshape(shape) for array, shape in zip(kept, shapes, strict=True)]


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("steps", [CLIP, RESIDUAL], ids=["clip", "residual"])
def test_estimate(steps: list[str]) -> None:
    """The cost model of tile sizes agrees with the simulator within a tenth."""
    conv, target = Conv(14, 14, 2, 4, 3, pad=1), machine()
    text = module_text(conv, steps + BYTES, "%q")
    module = LocatedParser(new_context(), text, "conv").parse_module()
    module.attributes[TARGET_ATTRIBUTE] = target
    whole = module.clone()
    lower(module, [Phase("loop", TO_LOOP)])
    sch = Schedule(next(op for op in module.ops if isinstance(op, FuncOp)))
    roles = find_roles(sch, target)
    assert isinstance(roles, VdlaRoles)
    tile = choose_tile(roles, target)
    assert tile is not None
    expected = Estimator(roles, target).cycles(tile)
    program = program_of(whole)
    lower(whole, [Phase("tokens", "order-units")])
    found = report_of(program, target).cycles
    assert expected == pytest.approx(found, rel=0.1)
