"""Rules with spaces: default choices, choices by name, and rejected ones."""

from __future__ import annotations

import pytest

from checks.cpu_kernels import AVX2, data, te_module
from tcopt.compiler import Phase, lower, pipeline
from tcopt.dialects.graph import ConstantOp, MatmulOp
from tcopt.dialects.graph.core.types import like
from tcopt.dialects.loop import FuncOp
from tcopt.schedules.passes.schedule import find_schedule, spaces_of
from tcopt.schedules.rules.recorded import recorded_choice
from tcopt.schedules.rules.rule import facts_of, rules_for
from tcopt.schedules.spaces.space import Point
from tcopt.support.errors import InputError, ScheduleError
from tcopt.support.machines.matmul_tiles import MatmulTile, tile_cost

_LOOP = next(phase for phase in pipeline() if phase.name == "loop")
RULES = rules_for("cpu")
FACTS = facts_of(AVX2)


def function(make, *arrays) -> FuncOp:
    """Return the unscheduled loop function of one graph op."""
    op = make(*(ConstantOp.weight("v", like(array)).results[0] for array in arrays))
    module = te_module(arrays, op.tensor_expression, AVX2)
    lower(module, [Phase("te", "te-inline"), _LOOP])
    (made,) = (each for each in module.ops if isinstance(each, FuncOp))
    return made


def product(rows: int = 96, columns: int = 128, depth: int = 64) -> FuncOp:
    return function(MatmulOp, data(rows, depth), data(depth, columns, seed=1))


def test_a_rule_asked_with_its_default_writes_the_same_schedule():
    """A rule selected by name with its default choice behaves as without selection."""
    made = product()
    plain = find_schedule(made, RULES, FACTS)
    assert plain is not None
    choice = recorded_choice(plain.sequence)
    again = find_schedule(made, RULES, FACTS, rule="cpu-matmul", choice=choice)
    assert again is not None
    assert str(again.sequence) == str(plain.sequence)
    assert str(again.func) == str(plain.func)


def test_another_choice_is_another_schedule_which_records_it():
    """The choice shows in the loops and in the record."""
    (rule, space), *_ = spaces_of(product(), RULES, FACTS)
    choice = space.default() | {"rows": 4, "vectors": 3, "order": 1, "steps": 2}
    made = find_schedule(product(), RULES, FACTS, rule=rule.name, choice=choice)
    assert made is not None
    assert recorded_choice(made.sequence)["order"] == "columns outside"
    assert space.from_words(recorded_choice(made.sequence)) == choice
    default = find_schedule(product(), RULES, FACTS)
    assert default is not None
    assert str(made.func) != str(default.func)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 99}, "knob 'rows' may be one of"),
        ({"order": "inside out"}, "knob 'order' may be one of"),
        ({"height": 1}, "no knob is named 'height'"),
        ({"rows": 8, "vectors": 6}, "is illegal"),
    ],
)
def test_what_is_no_choice_is_refused(change, message):
    """Unknown knobs and values, and tiles that exceed the registers."""
    (rule, space), *_ = spaces_of(product(), RULES, FACTS)
    with pytest.raises(InputError, match=message):
        find_schedule(product(), RULES, FACTS, rule=rule.name, choice={**space.default(), **change})


def test_names_are_checked():
    """An unknown rule, one that declines, and a choice without a rule."""
    with pytest.raises(InputError, match="no schedule rule 'cpu-magic'"):
        find_schedule(product(), RULES, FACTS, rule="cpu-magic")
    with pytest.raises(ScheduleError, match="cpu-injective declines @"):
        find_schedule(product(), RULES, FACTS, rule="cpu-injective")
    with pytest.raises(InputError, match="name the rule"):
        find_schedule(product(), RULES, FACTS, choice={"rows": 4})


@pytest.mark.parametrize("shape", [(96, 128, 64), (1, 300, 64), (5, 24, 40), (512, 20, 512)])
def test_formulas_give_for_columns_what_they_give_for_numbers(shape):
    """All tiles of a product at once, and one by one."""
    (_, space), *_ = spaces_of(product(*shape), RULES, FACTS)
    points = space.points(range(0, space.size, max(space.size // 500, 1)))
    k = space.at(points)
    columns = [space.valid(k), space.estimate(k)]
    columns += [each.extent for each in space.nest(k)] + [each.kind for each in space.nest(k)]
    for row, point in enumerate(points):
        one = Point(space.choice(point))
        numbers = [space.valid(one), space.estimate(one)]
        numbers += [each.extent for each in space.nest(one)]
        numbers += [each.kind for each in space.nest(one)]
        assert numbers == [c if not hasattr(c, "__len__") else c[row] for c in columns]


@pytest.mark.nightly
@pytest.mark.parametrize("shape", [(96, 128, 64), (1, 300, 64), (5, 24, 40), (512, 20, 512)])
def test_the_default_has_nearly_the_least_estimate(shape):
    """Within 2% of the minimum over all tiles, and then the most accumulators."""
    rows, columns, _ = shape
    (_, space), *_ = spaces_of(product(*shape), RULES, FACTS)
    costs = {}
    for choice in space.choices():
        if space.usual(Point(choice)):
            tile = MatmulTile(choice["rows"], choice["vectors"])
            costs[tile] = tile_cost(rows, columns, 8, FACTS, tile)
    near = [tile for tile, cost in costs.items() if cost <= 1.02 * min(costs.values())]
    wanted = max(near, key=lambda tile: (tile.rows * tile.vectors, tile.rows))
    default = space.default()
    assert (default["rows"], default["vectors"]) == wanted
