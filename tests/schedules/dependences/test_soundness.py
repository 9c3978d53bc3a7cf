"""Schedule steps on arbitrary loop functions: accepted steps preserve results for any order of
concurrent iterations, and so does the printed schedule."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from checks.loop_reference import differences, random_arguments, run
from programs.random_loops import random_function, random_stages
from programs.schedule_programs import PROGRAMS
from programs.schedule_steps import random_schedule
from running.examples import examples
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import SequenceOp
from tcopt.schedules import Schedule
from tcopt.schedules.api.apply import apply_sequence
from tcopt.schedules.dependences.order import Dependences
from tcopt.support.errors import ScheduleError
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.running import new_context

CONTEXT = new_context()
SEEDS = st.integers(0, 1 << 32)


def parsed(text: str) -> FuncOp:
    function = Parser(CONTEXT, text).parse_op()
    assert isinstance(function, FuncOp)
    return function


def check_text(sch: Schedule, original: FuncOp) -> None:
    """The schedule's text contains the same steps, and they give the same function."""
    text = str(sch.sequence)
    again = Parser(CONTEXT, text).parse_op()
    assert isinstance(again, SequenceOp)
    assert again.is_structurally_equivalent(sch.sequence)
    assert str(again) == text
    replayed = original.clone()
    apply_sequence(again, replayed)
    assert str(replayed) == str(sch.func)


@pytest.mark.parametrize("make", [random_function, random_stages])
@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(seed=SEEDS)
def test_accepted_steps_keep_results(make: Callable[[int], str], seed: int) -> None:
    function = parsed(make(seed))
    verify(ModuleOp([function.clone()]))
    arguments = random_arguments(function, seed)
    expected = run(function, arguments)
    rng = random.Random(seed)
    for _ in range(2):
        sch = Schedule(function.clone())
        random_schedule(rng, sch, rng.randint(1, 6))
        verify(ModuleOp([sch.func.clone()]))
        for order in range(2):
            assert not differences(expected, run(sch.func, arguments, order)), str(sch.sequence)
        check_text(sch, function)


@pytest.mark.parametrize("program", sorted(PROGRAMS))
@settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))
@given(seed=SEEDS)
def test_schedules_of_expressions_parse_back(program: str, seed: int) -> None:
    function = PROGRAMS[program]()
    sch = Schedule(function.clone())
    random_schedule(random.Random(seed), sch, 10)
    check_text(sch, function)


def test_most_steps_are_taken_somewhere() -> None:
    """The tests above do not pass merely because all steps are rejected."""
    taken: Counter[str] = Counter()
    for seed in range(60):
        rng = random.Random(seed)
        sch = Schedule(parsed((random_function if seed % 3 == 0 else random_stages)(seed)))
        taken.update(random_schedule(rng, sch, 6))
    common = {"compute_at", "compute_inline", "fuse", "parallel", "reorder", "reverse_compute_at"}
    rare = {"cache_read", "cache_write", "decompose_reduction", "split", "vectorize"}
    assert common | rare <= taken.keys()


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_functions_of_expressions_need_no_second_look(program: str) -> None:
    """Each element of a tensor expression is computed once and then read."""
    assert Dependences(PROGRAMS[program]()).is_free


ROWS = """
loop.func @rows(%x: memref<8x8xf32>, %y: memref<9x8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 8 {
      loop.block "b" (%v: spatial 8 = %i, %w: spatial 8 = %j) {
        %0 = loop.load %y[%v, %w] : memref<9x8xf32>
        %1 = loop.load %x[%v, %w] : memref<8x8xf32>
        %2 = arith.addf %0, %1 : f32
        loop.store %2, %y[%v + 1, %w] : memref<9x8xf32>
      }
    }
  }
}
"""


def test_what_one_loop_carries_leaves_others_free() -> None:
    """Running sums down the columns of a matrix: columns are independent, rows are not."""
    sch = Schedule(parsed(ROWS))
    i, j = sch.get_loops("b")
    with pytest.raises(
        ScheduleError, match=r"load %y\[%v, %w\] of block .* and the store %y\[%v \+ 1, %w\]"
    ):
        sch.parallel(i)
    jo, ji = sch.split(j, [None, 4])
    sch.reorder(jo, i, ji)
    sch.vectorize(ji)
    sch.parallel(jo)


def test_updates_in_place_are_independent() -> None:
    """Each iteration reads and writes its own element, also for fused and split loops."""
    text = ROWS.replace("%y[%v + 1, %w]", "%y[%v, %w]")
    sch = Schedule(parsed(text))
    fused = sch.fuse(*sch.get_loops("b"))
    outer, inner = sch.split(fused, [None, 16])
    sch.parallel(outer)
    sch.vectorize(inner)


def test_a_loop_that_runs_on_is_guarded() -> None:
    """A block that is not bound to a loop variable runs no more often than before."""
    text = """
loop.func @f(%x: memref<1xf32>, %y: memref<1xf32>) {
  loop.for %i = 0 to 5 {
    loop.block "b" (%v: spatial 1 = 0) {
      %0 = loop.load %y[%v] : memref<1xf32>
      %1 = loop.load %x[%v] : memref<1xf32>
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %y[%v] : memref<1xf32>
    }
  }
}
"""
    function = parsed(text)
    arguments = random_arguments(function, 3)
    expected = run(function, arguments)
    sch = Schedule(function)
    sch.split(sch.get_loops("b")[0], [None, 4])
    assert run(function, arguments) == expected


def test_what_never_runs_gets_nothing_that_does() -> None:
    """A copy or an init next to a block without iterations would be the only code that runs."""
    text = """
loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 0 {
      loop.block "b" (%v: spatial 4 = %i, %r: reduce 0 = %k) {
        loop.init {
          %z = arith.constant 0.0 : f32
          loop.store %z, %y[%v] : memref<4xf32>
        }
        %0 = loop.load %y[%v] : memref<4xf32>
        %1 = loop.load %x[%v] : memref<4xf32>
        %2 = arith.addf %0, %1 : f32
        loop.store %2, %y[%v] : memref<4xf32>
      }
    }
  }
}
"""
    sch = Schedule(parsed(text))
    i, k = sch.get_loops("b")
    with pytest.raises(ScheduleError, match="it never runs"):
        sch.cache_write("b", "register")
    with pytest.raises(ScheduleError, match="it never runs"):
        sch.decompose_reduction("b", k)
    with pytest.raises(ScheduleError, match="it never runs"):
        sch.prefetch("b", 1, i, k)


@pytest.mark.parametrize(
    ("start", "combine", "is_refused"),
    [("0.0", "addf", False), ("2.0", "addf", True), ("2.0", "maximumf", False)],
)
def test_partial_results_start_from_nothing(start: str, combine: str, is_refused: bool) -> None:
    """The initial value of a sum would be counted once for each partial sum."""
    text = f"""
loop.func @f(%x: memref<8xf32>, %y: memref<1xf32>) {{
  loop.for %k = 0 to 8 {{
    loop.block "b" (%s: spatial 1 = 0, %v: reduce 8 = %k) {{
      loop.init {{
        %z = arith.constant {start} : f32
        loop.store %z, %y[%s] : memref<1xf32>
      }}
      %0 = loop.load %y[%s] : memref<1xf32>
      %1 = loop.load %x[%v] : memref<8xf32>
      %2 = arith.{combine} %0, %1 fastmath<reassoc> : f32
      loop.store %2, %y[%s] : memref<1xf32>
    }}
  }}
}}
"""
    function = parsed(text)
    arguments = random_arguments(function, 5)
    expected = run(function, arguments)
    sch = Schedule(function)
    if is_refused:
        with pytest.raises(ScheduleError, match="starts with a value"):
            sch.rfactor(sch.get_loops("b")[0])
        return
    sch.rfactor(sch.get_loops("b")[0])
    assert run(function, arguments) == expected
