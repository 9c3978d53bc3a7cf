"""Detection of loop nests that one instruction replaces: perfectly nested around an intrinsic call
whose operands stay in memory."""

from __future__ import annotations

from xdsl.ir import Operation

from tcopt.dialects import loop


def path_to_call(op: Operation) -> list[Operation] | None:
    """Return the path of loops and guards from an op to the single call inside, or None.

    Loops with a kind other than serial are excluded.
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
