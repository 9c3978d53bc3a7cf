"""The space of the accelerator's rule: its default, its formulas, any point."""

from __future__ import annotations

import numpy as np
import pytest

from programs.accelerator_programs import TO_LOOP, TO_PLACES, Conv
from tcopt.backends.accelerator.code import code_for
from tcopt.backends.vdla.machines import named_machine
from tcopt.compiler import Phase, lower
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules import Schedule
from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.rule import rules_for
from tcopt.schedules.rules.vdla.contraction import Contraction
from tcopt.schedules.rules.vdla.tile_space import TileSpace
from tcopt.schedules.spaces.space import Point

LAYERS = {
    "C2": (Conv(56, 56, 4, 4, 3, pad=1), (1, 2, 8, 14), "outputs outside", (0, 0), (3, 3, 2)),
    "C3": (Conv(56, 56, 4, 4, 1), (4, 4, 2, 56), "outputs outside", (1, 1), (3, 3, 2)),
    "C4": (Conv(56, 56, 4, 8, 3, 2, 1), (2, 1, 4, 28), "outputs outside", (0, 0), (3, 3, 2)),
    "C5": (Conv(56, 56, 4, 8, 1, 2), (8, 4, 1, 28), "outputs outside", (1, 1), (3, 3, 2)),
    "C6": (Conv(28, 28, 8, 8, 3, pad=1), (1, 2, 4, 28), "outputs outside", (0, 0), (3, 3, 2)),
    "C7": (Conv(28, 28, 8, 16, 3, 2, 1), (2, 1, 7, 14), "outputs outside", (0, 0), (3, 3, 2)),
    "C8": (Conv(28, 28, 8, 16, 1, 2), (16, 8, 1, 14), "outputs outside", (1, 1), (3, 1, 2)),
    "C9": (Conv(14, 14, 16, 16, 3, pad=1), (1, 2, 7, 14), "outputs outside", (0, 0), (3, 3, 2)),
    "C10": (Conv(14, 14, 16, 32, 3, 2, 1), (4, 1, 7, 7), "outputs outside", (0, 0), (3, 3, 2)),
    "C11": (Conv(14, 14, 16, 32, 1, 2), (1, 16, 7, 7), "pixels outside", (1, 1), (1, 3, 2)),
    "C12": (Conv(7, 7, 32, 32, 3, pad=1), (2, 2, 7, 7), "outputs outside", (0, 0), (3, 3, 2)),
    "dense": (Conv(1, 1, 32, 63, 1), (3, 16, 1, 1), "pixels outside", (1, 0), (3, 2, 2)),
}
"""ResNet-18's layers on the paper's machine: tiles of outputs, depth, rows and columns, order,
operands loaded whole, slots. They are those of the table in docs/vdla.md."""


def space_of(conv: Conv, target: VdlaTargetAttr) -> tuple[FuncOp, TileSpace]:
    module = conv.module(target)
    lower(module, [Phase("loop", TO_LOOP)])
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    space = Contraction().space(Schedule(function.clone()), target)
    assert isinstance(space, TileSpace)
    return function, space


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("name", LAYERS)
def test_the_default_is_what_the_table_was_made_with(name: str) -> None:
    conv, (outputs, depth, rows, columns), order, (data, weights), slots = LAYERS[name]
    _, space = space_of(conv, named_machine("vdla"))
    assert space.words(space.default()) == {
        "outputs": outputs,
        "depth": depth,
        "pixels_0": 1,
        "pixels_1": rows,
        "pixels_2": columns,
        "order": order,
        "data": "whole" if data else "by parts",
        "weights": "whole" if weights else "by parts",
        **dict(zip(("data_slots", "weight_slots", "sum_slots"), slots, strict=True)),
    }


SMALL = VdlaTargetAttr.of_facts(
    {**named_machine("vdla").facts(), "inp_bytes": 2048, "wgt_bytes": 16384, "acc_bytes": 4096}
)


@pytest.mark.parametrize(
    "conv", [Conv(9, 12, 2, 4, 3, stride=2, pad=1), Conv(7, 6, 3, 2, 1, images=2)], ids=str
)
def test_columns_say_what_numbers_do(conv: Conv) -> None:
    """Validity, estimate, slots and loops agree for columns of choices and for each one."""
    _, space = space_of(conv, SMALL)
    points = space.draw(20000, np.random.default_rng(0))
    fits = np.asarray(space.valid(space.at(points)))
    points = np.concatenate([points[fits][:60], points[:40]])
    k = space.at(points)
    columns = [np.broadcast_to(c, len(points)) for c in (space.valid(k), space.estimate(k))]
    loops = space.nest(k)
    assert 0 < columns[0].sum() < len(points)
    for row, point in enumerate(points):
        choice = space.choice(point)
        one = Point(choice)
        assert [bool(space.valid(one)), int(space.estimate(one))] == [c[row] for c in columns]
        for level, of_one in zip(loops, space.nest(one), strict=True):
            assert np.broadcast_to(level.extent, len(points))[row] == of_one.extent


@pytest.mark.nightly
def test_any_choice_computes_the_same(rng: np.random.Generator) -> None:
    """Random points fit the memories, with threads too, and results equal numpy's."""
    conv = Conv(7, 6, 5, 4, 3, pad=1)
    function, space = space_of(conv, SMALL)
    rules = rules_for("vdla")
    points = space.draw(100000, np.random.default_rng(1))
    points = points[np.asarray(space.valid(space.at(points)))]
    choices = [space.choice(point) for point in points]
    threaded = [choice for choice in choices if choice["threads"] > 1]
    assert threaded
    for choice in (*choices[:5], *threaded[:2]):
        words = space.words(choice)
        schedule = find_schedule(function, rules, SMALL, rule="vdla-contraction", choice=words)
        assert schedule is not None
        module = conv.module(SMALL)
        module.body.block.erase_op(next(iter(module.ops)))
        module.body.block.add_op(schedule.func)
        lower(module, [Phase("program", f"{TO_PLACES},lower-loop-to-accelerator,order-units")])
        (program,) = module.ops
        assert isinstance(program, ProgramOp)
        x, w, y = conv.arrays(rng)
        code_for(program, SMALL).run([x, w, y], seed=0)
        np.testing.assert_array_equal(y, conv.expected(x, w))


@pytest.mark.nightly
def test_the_default_is_near_the_best_of_many_by_the_model_of_the_units() -> None:
    """Many tiles have the same estimate if the ALU is the bottleneck."""
    target = VdlaTargetAttr.of_facts({**named_machine("vta").facts(), "results": "i32"})
    for conv in (LAYERS["C8"][0], LAYERS["C7"][0]):
        _, space = space_of(conv, target)
        default = space.timer.cycles(space.pieces(Point(space.default())))
        points = space.draw(20_000, np.random.default_rng(0))
        k = space.at(points)
        costs = np.where(space.valid(k) & (k.threads == 1), space.estimate(k), np.inf)
        for row in np.argsort(costs, kind="stable")[:100]:
            tile = space.pieces(Point(space.choice(points[row])))
            assert space.timer.cycles(tile) >= 0.98 * default
            # A point abandoned early takes at least the reported time.
            assert space.timer.cycles(tile, default) >= min(default, space.timer.cycles(tile))
