"""Errors of schedule primitives that cannot be applied."""

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
    """Return the error for an illegal argument: `split: argument 'factors': reason`.

    Args:
        primitive: name of the primitive.
        argument: name of the illegal argument.
        reason: why the argument is illegal.
        op: the loop or block concerned.
        hint: what to do instead.
    """
    return ScheduleError(f"{primitive}: argument '{argument}': {reason}", op=op, hint=hint)
