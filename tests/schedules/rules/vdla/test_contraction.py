"""Convolutions on the accelerator: scheduled by the rule, as instructions, equal to numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.accelerator_programs import TO_LOOP, Conv, program_of
from running.examples import examples
from tcopt.backends.accelerator.code import code_for
from tcopt.backends.accelerator.report import report_of
from tcopt.backends.vdla.machines import named_machine
from tcopt.compiler import Phase, lower
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules import Schedule
from tcopt.schedules.rules.vdla.contraction import choose_tile
from tcopt.schedules.rules.vdla.roles import VdlaRoles, find_roles
from tcopt.schedules.rules.vdla.timing import Estimator

CONVS = {
    "3x3": Conv(9, 11, 2, 3, 3, pad=1),
    "3x3, stride 2": Conv(9, 12, 2, 2, 3, stride=2, pad=1),
    "1x1": Conv(6, 5, 3, 2, 1),
    "1x1, stride 2": Conv(9, 8, 2, 3, 1, stride=2),
    "1x1 with pads": Conv(5, 5, 1, 1, 1, pad=1),
    "5x5, no pads": Conv(8, 7, 1, 2, 5),
    "two images": Conv(5, 4, 1, 2, 3, pad=1, images=2),
    "one pixel": Conv(1, 1, 3, 2, 1),
    "large": Conv(28, 28, 4, 4, 3, pad=1),
}


def machine(**facts: int | str) -> VdlaTargetAttr:
    """Return the paper's machine with some changed parameters."""
    return VdlaTargetAttr.of_facts({**named_machine("vdla").facts(), **facts})


def check(conv: Conv, target: VdlaTargetAttr, rng: np.random.Generator) -> None:
    program = program_of(conv.module(target))
    x, w, y = conv.arrays(rng)
    code_for(program, target).run([x, w, y])
    np.testing.assert_array_equal(y, conv.expected(x, w))


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("conv", CONVS.values(), ids=CONVS.keys())
def test_results(conv: Conv, rng: np.random.Generator) -> None:
    """Results of convolutions on the paper's machine."""
    check(conv, machine(), rng)


@pytest.mark.parametrize(
    "facts",
    [
        {"inp_bytes": 1024, "wgt_bytes": 4096, "acc_bytes": 2048},
        {"rewrite": 2},
        {"uop_bytes": 64},
    ],
    ids=str,
)
def test_other_machines(facts: dict[str, int], rng: np.random.Generator) -> None:
    """Little memory, few micro-ops, registers that must not be written in consecutive cycles."""
    check(CONVS["3x3"], machine(**facts), rng)


def test_other_units(rng: np.random.Generator) -> None:
    """A unit with other channel counts: nothing depends on the number 16."""
    target = machine(block_in=8, block_out=8, wgt_bytes=4096, acc_bytes=4096, inp_bytes=4096)
    check(Conv(6, 7, 2, 3, 3, pad=1, block=8), target, rng)


@given(
    conv=st.builds(
        Conv,
        height=st.integers(3, 9),
        width=st.integers(3, 9),
        inputs=st.integers(1, 3),
        outputs=st.integers(1, 3),
        kernel=st.sampled_from([1, 2, 3]),
        stride=st.integers(1, 3),
        pad=st.integers(0, 1),
    )
)
@settings(max_examples=examples(8), deadline=None)
def test_any_shape(conv: Conv) -> None:
    """Convolutions of any shape on a machine with little memory."""
    target = machine(inp_bytes=1024, wgt_bytes=4096, acc_bytes=1024)
    check(conv, target, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["3x3", "3x3, stride 2", "1x1, stride 2", "large"])
def test_estimate(name: str) -> None:
    """The cost model of tile sizes agrees with the simulator within a tenth."""
    target, conv = machine(), CONVS[name]
    roles = roles_of(conv, target)
    tile = choose_tile(roles, target)
    assert tile is not None
    expected = Estimator(roles, target).cycles(tile)
    module = conv.module(target)
    program = program_of(module)
    lower(module, [Phase("tokens", "order-units")])
    found = report_of(program, target).cycles
    assert expected == pytest.approx(found, rel=0.1)


def test_slots_hide_latency() -> None:
    """Tiles with several slots are computed while others are loaded."""
    target, conv = machine(), CONVS["large"]
    roles = roles_of(conv, target)
    timer = Estimator(roles, target)
    serial = choose_tile(roles, target, serial=True)
    hidden = choose_tile(roles, target)
    assert serial is not None and hidden is not None
    assert timer.cycles(hidden) < 0.9 * timer.cycles(serial)


def roles_of(conv: Conv, target: VdlaTargetAttr) -> VdlaRoles:
    module = conv.module(target)
    lower(module, [Phase("loop", TO_LOOP)])
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    sch = Schedule(function)
    roles = find_roles(sch, target)
    assert isinstance(roles, VdlaRoles)
    return roles
