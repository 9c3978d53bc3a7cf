"""Remarks: recorded only if requested, with the op's name and location."""

from __future__ import annotations

from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.dialects.test import TestOp

from tcopt.support.remarks import collect_remarks, listening, remark, replay


def test_nobody_listens():
    remark("fuse-ops", TestOp(), "left alone")
    assert not listening()


def test_an_op_with_a_node_name():
    op = TestOp()
    op.location = NameLoc(StringAttr("Conv_3"), UnknownLoc())
    with collect_remarks() as remarks:
        assert listening()
        remark("winograd", op, "F(4x4), 2.1 times cheaper")
        remark("fuse-ops", op, "two readers", missed=True)
    assert [str(r) for r in remarks] == [
        "done: winograd: test.op (Conv_3): F(4x4), 2.1 times cheaper",
        "missed: fuse-ops: test.op (Conv_3): two readers",
    ]


def test_a_function_is_named_by_its_symbol():
    with collect_remarks() as remarks:
        remark("schedule", FuncOp("dense", ((), ())), "by cpu-matmul")
    assert remarks[0].subject == "@dense"


def test_gathered_remarks_reach_the_outer_listener():
    with collect_remarks() as outer:
        with collect_remarks() as inner:
            remark("cse", TestOp(), "merged")
        assert outer == []
        replay(inner)
    assert outer == inner
