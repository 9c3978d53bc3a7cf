"""How a schedule primitive says that it cannot be applied."""

from __future__ import annotations

from xdsl.ir import Operation

from tcopt.support.errors import ScheduleError


def illegal(
    primitive: str,
    argument: str,
    reason: str,
    *,
    op: Operation | None = None,
    hint: str | None = None,
) -> ScheduleError:
    """The error for one wrong argument: `split: argument 'factors': reason`.

    Args:
        primitive: the primitive's name.
        argument: the name of the argument at fault.
        reason: what is wrong with it and why.
        op: the loop or block concerned.
        hint: what to do instead.
    """
    return ScheduleError(f"{primitive}: argument '{argument}': {reason}", op=op, hint=hint)
