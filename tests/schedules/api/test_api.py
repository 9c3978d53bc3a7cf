"""The Schedule API: handles, knobs, and the sequence it records."""

from __future__ import annotations

import pytest

from programs.schedule_programs import check, matmul, run, softmax
from tcopt.dialects.loop import LoopKind
from tcopt.schedules import Schedule
from tcopt.schedules.api.apply import apply_sequence
from tcopt.support.errors import ScheduleError


def test_loop_handles_follow_their_loops() -> None:
    """A handle denotes the same loop wherever primitives move it."""
    sch = Schedule(matmul())
    i, j, k = sch.get_loops("mm")
    sch.reorder(k, i)
    assert sch.get_loops("mm") == [k, j, i]
    jo, ji = sch.split(j, [None, 4])
    assert sch.get_loops("mm") == [k, jo, ji, i]
    assert [sch.extent(loop) for loop in (jo, ji)] == [5, 4]
    sch.vectorize(i)
    assert sch.loop_op(i).loop_kind is LoopKind.VECTORIZED


def test_handles_of_what_is_gone_say_why() -> None:
    """A loop that was fused, or that moved away with its block, cannot be used again."""
    sch = Schedule(matmul())
    i, j, _ = sch.get_loops("mm")
    fused = sch.fuse(i, j)
    with pytest.raises(ScheduleError, match=r"loop %i is gone: it was fused into %i_j"):
        sch.parallel(i)
    old, _ = sch.get_loops("bias")
    sch.reverse_compute_at("bias", fused)
    with pytest.raises(ScheduleError, match=r'is gone: its block "bias" moved'):
        sch.loop_op(old)
    sch.reverse_compute_inline("relu")
    with pytest.raises(ScheduleError, match=r'block "relu" is gone: it was inlined into "bias"'):
        sch.get_loops("relu")
    with pytest.raises(ScheduleError, match=r'there is no block "nothing".*; there are "mm"'):
        sch.get_block("nothing")
    other = Schedule(matmul())
    with pytest.raises(ScheduleError, match="belongs to another schedule"):
        other.loop_op(fused)


def test_blocks_know_their_neighbours() -> None:
    """Producers and consumers are blocks that share a buffer, in program order."""
    sch = Schedule(softmax())
    assert [b.name for b in sch.blocks()] == ["top", "e", "total", "y"]
    assert [b.name for b in sch.producers("y")] == ["e", "total"]
    assert [b.name for b in sch.consumers("e")] == ["total", "y"]
    assert sch.producers("top") == []


def test_looking_around_is_not_recorded() -> None:
    """Only steps that change the function, and the handles they need, are recorded."""
    sch = Schedule(matmul())
    for block in sch.blocks():
        sch.get_loops(block)
        sch.consumers(block)
    assert sch.sequence.body.block.first_op is None
    sch.vectorize(sch.get_loops("relu")[1])
    names = [op.name for op in sch.sequence.body.block.ops]
    assert names == ["sched.get_block", "sched.get_loops", "sched.vectorize"]


def test_knobs_take_values_that_are_given() -> None:
    """A knob has its default value unless the schedule was created with another."""
    function = matmul()

    def schedule(sch: Schedule) -> int:
        tile = sch.knob("tile", [2, 4, 8], default=4)
        _, j, _ = sch.get_loops("mm")
        sch.split(j, [None, tile])
        return tile

    sch = Schedule(function.clone())
    assert schedule(sch) == 4
    tuned = Schedule(function.clone(), {"tile": 8})
    assert schedule(tuned) == 8
    replayed = function.clone()
    apply_sequence(sch.sequence, replayed, {"tile": 8})
    assert str(replayed) == str(tuned.func)
    with pytest.raises(ScheduleError, match=r"3 for 'tile' is not one of \[2, 4, 8\]"):
        schedule(Schedule(function.clone(), {"tile": 3}))


def test_errors_name_the_argument() -> None:
    """Names of scopes and axes are validated too."""
    sch = Schedule(matmul())
    with pytest.raises(
        ScheduleError,
        match="set_scope: argument 'scope': 'l1' is not one of the memory scopes global",
    ):
        sch.set_scope("mm", "l1")
    with pytest.raises(ScheduleError, match=r"argument 'axis': 'x' is not one of blockIdx\.x"):
        sch.bind(sch.get_loops("mm")[0], "x")
    with pytest.raises(ScheduleError, match="split: argument 'factors'"):
        sch.split(sch.get_loops("mm")[0], [None, None])


def test_register_tile() -> None:
    """The usual schedule of a matrix product: tiles in registers, a fused epilogue."""
    function = matmul(8, 40, 24)
    expected = run(function)
    sch = Schedule(function)
    sch.compute_inline("bias")
    i, j, k = sch.get_loops("mm")
    io, ii = sch.split(i, [None, 4])
    jo, jm, ji = sch.split(j, [None, 2, 8])
    sch.reorder(io, jo, k, ii, jm, ji)
    tiles = sch.fuse(io, jo)
    sch.parallel(tiles)
    sch.reverse_compute_at("relu", tiles)
    init = sch.decompose_reduction("mm", k)
    sch.set_scope("mm", "register")
    for block in ("mm", init, "relu"):
        *_, rows, columns, lanes = sch.get_loops(block) if block != "relu" else [tiles, *_tail(sch)]
        sch.vectorize(lanes)
        for loop in (rows, columns):
            sch.unroll(loop)
    check(function, expected)


def _tail(sch: Schedule) -> list:
    rows, columns = sch.get_loops("relu")[-2:]
    return [rows, *sch.split(columns, [None, 8])]
