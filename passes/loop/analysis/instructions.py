"""Loops that are those of one instruction: perfectly nested around one call of an intrinsic whose
operands stay in memory."""

from __future__ import annotations

from xdsl.ir import Operation

from tcopt.dialects import loop


def path_to_call(op: Operation) -> list[Operation] | None:
    """The loops and guards from an op to the one call that they hold, and the call; None if the
    op is, or holds, something else.

    Loops that are marked are none of an instruction.
    """
    path: list[Operation] = []
    while True:
        path.append(op)
        match op:
            case loop.IntrinOp():
                return path
            case loop.ForOp(loop_kind=loop.LoopKind.SERIAL) | loop.GuardOp():
                inside = list(op.body.block.ops)
            case _:
                return None
        if len(inside) != 1:
            return None
        op = inside[0]
