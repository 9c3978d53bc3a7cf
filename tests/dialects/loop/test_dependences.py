"""The dependence analysis, compared with enumerating all pairs of iterations of small nests."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

import pytest
from xdsl.parser import Parser

from programs.loop_programs import context, function_of
from tcopt.dialects.loop import ForOp, ThreadAxis
from tcopt.dialects.loop.dependences import Alias, Relation, Touch, alias, touches
from tcopt.passes.loop.analysis.lane_conflicts import NotVectorizable, check_lanes_independent

HOLDS = {
    Relation.EQUAL: lambda a, b: a == b,
    Relation.BEFORE: lambda a, b: a < b,
    Relation.AFTER: lambda a, b: a > b,
    Relation.NEXT: lambda a, b: b == a + 1,
    Relation.ANY: lambda a, b: True,
}
SHIFT = 100


def _index(rng: random.Random, names: str) -> str:
    """An expression of loop variables, in the syntax of both the IR and Python."""
    terms = [f"{name} * {rng.choice([0, 1, 1, 2, 4, -1])}" for name in names]
    if rng.random() < 0.4:
        part = f"({names[0]} * {rng.choice([2, 4])} + {names[-1]})"
        terms.append(f"{part} {rng.choice(['floordiv', 'mod'])} {rng.choice([2, 3])}")
    return f"{' + '.join(terms)} + {SHIFT}"


def _function(text: str) -> Callable[..., int]:
    return eval(f"lambda i, j, k=0: {text.replace('floordiv', '//').replace('mod', '%')}")


def _ir(text: str) -> str:
    for name in "ijk":
        text = text.replace(name + " *", f"%{name} *").replace(f"+ {name})", f"+ %{name})")
    return text


def _touches(text: str) -> tuple[list[ForOp], list[Touch]]:
    function = function_of(Parser(context(), text).parse_module())
    loops = [op for op in function.walk() if isinstance(op, ForOp)]
    return loops, touches(function.body.block.args[0], function)


def test_answers_are_exact() -> None:
    """A load under a guard and a vector store in an inner loop, in random relations of loops."""
    answers: list[Alias] = []
    for seed in range(60):
        rng = random.Random(seed)
        load, store, guard = _index(rng, "ij"), _index(rng, "ijk"), _index(rng, "ij")
        extents = [rng.randint(1, 4) for _ in range(3)]
        step, limit = rng.choice([1, 2, 3]), rng.randint(1, 6)
        loops, (first, second) = _touches(f"""
        loop.func @f(%x: memref<999xf32>) {{
          loop.for %i = 0 to {extents[0]} {{
            loop.for %j = 0 to {extents[1]} {{
              loop.guard ([{_ir(guard)} - {SHIFT}] in {limit}) {{
                %0 = loop.load %x[{_ir(load)}] : memref<999xf32>
              }}
              loop.for %k = 0 to {extents[2]} {{
                %1 = arith.constant dense<0.0> : vector<2xf32>
                loop.store %1, %x[{_ir(store)}] lanes [{step}] : memref<999xf32>, vector<2xf32>
              }}
            }}
          }}
        }}""")
        relations = [rng.choice(list(Relation)) for _ in range(2)]
        loaded, stored, guarded = map(_function, (load, store, guard))
        expected = any(
            HOLDS[relations[0]](i, p)
            and HOLDS[relations[1]](j, q)
            and 0 <= guarded(i, j) - SHIFT < limit
            and loaded(i, j) - stored(p, q, k) in (0, step)
            for i, j, p, q, k in product(*map(range, (*extents[:2], *extents)))
        )
        found = alias(first, second, dict(zip(loops, relations, strict=False)))
        assert found is (Alias.CERTAIN if expected else Alias.NEVER), seed
        answers.append(found)
    assert 10 < answers.count(Alias.CERTAIN) < 50


@pytest.mark.parametrize(
    ("index", "found"), [("%t", Alias.NEVER), ("%t * -1 + 7", Alias.CERTAIN), ("0", Alias.CERTAIN)]
)
def test_threads_are_compared_by_their_axis(index: str, found: Alias) -> None:
    """Loops that are bound to one axis have the same variable."""
    _, (store, load) = _touches(f"""
    loop.func @f(%x: memref<8xf32>) {{
      loop.for %t = 0 to 8 thread threadIdx.x {{
        %0 = arith.constant 0.0 : f32
        loop.store %0, %x[%t] : memref<8xf32>
      }}
      loop.for %t = 0 to 8 thread threadIdx.x {{
        %0 = loop.load %x[{index}] : memref<8xf32>
      }}
    }}""")
    axis = ThreadAxis.THREAD_X
    answers = {alias(store, load, {axis: r}, {axis: 8}) for r in (Relation.BEFORE, Relation.AFTER)}
    assert (Alias.CERTAIN in answers) == (found is Alias.CERTAIN)


def test_an_index_from_data_may_be_any() -> None:
    """Other dimensions may still be apart."""
    loops, (load, store) = _touches("""
    loop.func @f(%x: memref<8x8xf32>, %y: memref<8xindex>) {
      loop.for %i = 0 to 8 {
        %n = loop.load %y[%i] : memref<8xindex>
        %0 = loop.load %x[%i, %n] : memref<8x8xf32>
        loop.store %0, %x[%i, 0] : memref<8x8xf32>
      }
    }""")
    assert alias(load, store, {loops[0]: Relation.EQUAL}) is Alias.POSSIBLE
    assert alias(load, store, {loops[0]: Relation.BEFORE}) is Alias.NEVER


@pytest.mark.parametrize(
    ("index", "legal"),
    [("%l + %i", False), ("%i * 4 + %l", True), ("%l * 4 + %i", False), ("%l * 5 + %i", True)],
)
def test_lanes_may_run_in_another_iteration_of_an_inner_loop(index: str, legal: bool) -> None:
    """All lanes run an inner iteration before the next one, unlike the loop's iterations."""
    loops, _ = _touches(f"""
    loop.func @f(%x: memref<25xf32>, %y: memref<4xf32>) {{
      loop.for %l = 0 to 4 vectorized {{
        loop.for %i = 0 to 5 {{
          %0 = loop.load %y[%l] : memref<4xf32>
          loop.store %0, %x[{index}] : memref<25xf32>
        }}
      }}
    }}""")
    if legal:
        check_lanes_independent(loops[0])
        return
    with pytest.raises(NotVectorizable):
        check_lanes_independent(loops[0])
