"""Apply a `sched.sequence` to a function through the `Schedule` API."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import cast

from xdsl.ir import SSAValue

from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import KnobOp, SchedOp, SequenceOp
from tcopt.schedules.api.schedule import Schedule
from tcopt.support.errors import InputError, ScheduleError, TcoptError
from tcopt.support.locations import is_known


def apply_sequence(
    sequence: SequenceOp, func: FuncOp, knobs: Mapping[str, int] | None = None
) -> Schedule:
    """Apply the steps of a `sched.sequence` to a function.

    Args:
        sequence: the steps.
        func: the function, edited in place.
        knobs: values that override the sequence's `sched.knob`s, by name. A value replaces the knob
            wherever the sequence uses it and changes nothing else, so this is meant for
            hand-written sequences. The choice of a rule is not a knob: another choice may need
            other steps, which `find_schedule` writes for a given `rule` and `choice`.
    Returns:
        The resulting schedule. Its own sequence records the applied steps.
    Raises:
        InputError: `knobs` names a knob that the sequence does not have.
        ScheduleError: a step's precondition does not hold, or a step returns another number of
            loops or blocks than the sequence names. The function is left partly scheduled.
    """
    _check_knobs(sequence, knobs or {})
    schedule = Schedule(func, knobs)
    known: dict[SSAValue, object] = {}
    for op in sequence.body.block.ops:
        assert isinstance(op, SchedOp)
        try:
            made = getattr(schedule, op.primitive)(*op.arguments(partial(_resolve, known)))
        except ScheduleError as error:
            raise _at_step(error, op) from None
        except (TcoptError, MemoryError):
            raise
        except Exception as error:
            # Sequences are read from files, so a step may have any arguments that its types permit.
            reason = f"{type(error).__name__}: {error}"
            raise ScheduleError(f"the step cannot be applied: {reason}", op=op) from error
        results = cast(list[object], made) if isinstance(made, list) else [made]
        if op.results and len(results) != len(op.results):
            raise ScheduleError(
                f"the sequence names {len(op.results)} loops where there are {len(results)}", op=op
            )
        known.update(zip(op.results, results, strict=False))
    return schedule


def _resolve(known: Mapping[SSAValue, object], handle: SSAValue) -> object:
    if handle not in known:
        name = handle.name_hint or "a handle"
        raise ScheduleError(f"%{name} is used before the step that defines it")
    return known[handle]


def _check_knobs(sequence: SequenceOp, knobs: Mapping[str, int]) -> None:
    """Raise InputError if `knobs` names a knob that the sequence does not have."""
    names = [op.knob_name.data for op in sequence.body.block.ops if isinstance(op, KnobOp)]
    for name in knobs:
        if name not in names:
            known = f"it has {', '.join(names)}" if names else "it has none"
            raise InputError(
                f"sequence @{sequence.sym_name.data} has no knob '{name}', {known}",
                hint="to change a choice of a rule, ask the rule for another schedule",
            )


def _at_step(error: ScheduleError, step: SchedOp) -> ScheduleError:
    """Relocate an error to its step; the hint then gives the location of the loop or block."""
    if not is_known(step.location):
        return ScheduleError(error.message, op=step, hint=error.hint, where=error.where)
    hint = error.hint
    if error.op_name and error.where:
        concerned = f"the {error.op_name} is at {error.where}"
        hint = f"{hint}; {concerned}" if hint else concerned
    return ScheduleError(error.message, op=step, hint=hint)
