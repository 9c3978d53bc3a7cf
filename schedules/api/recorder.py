"""Record the calls of a schedule as a `sched.sequence`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.ir import SSAValue

from tcopt.dialects.loop import ForOp, FuncOp
from tcopt.dialects.sched import GetBlockOp, GetLoopsOp, KnobOp, SchedOp, SequenceOp
from tcopt.schedules.api.handles import KnobValue
from tcopt.schedules.state.state import blocks_under, loops_of

StepObserver = Callable[[SchedOp, FuncOp], None]

_OBSERVER: ContextVar[StepObserver | None] = ContextVar("step_observer", default=None)


@contextmanager
def steps_observed(observer: StepObserver) -> Generator[None]:
    """Call `observer` after each step of any schedule, with the function as changed by the step."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


class Recorder:
    """The recorded sequence, and the SSA value of each handle in it.

    `sched.get_block` and `sched.get_loops` are recorded when a handle is first used, so queries
    that no step uses leave no trace.
    """

    def __init__(self, func: FuncOp):
        self.func = func
        name = func.sym_name.data
        self.sequence = SequenceOp(f"{name}_schedule", name)
        self._blocks: dict[str, SSAValue] = {}
        self._loops: dict[ForOp, SSAValue] = {}
        self._knobs: dict[str, SSAValue] = {}

    def block(self, name: str) -> SSAValue:
        """Return the SSA value that represents a block."""
        if name not in self._blocks:
            op = self.add(GetBlockOp(name))
            self.name_block(op.results[0], name)
        return self._blocks[name]

    def loop(self, loop: ForOp) -> SSAValue:
        """Return the SSA value that represents a loop, which must still be in the function."""
        if loop not in self._loops:
            block = next(blocks_under(loop))
            around = loops_of(block)
            op = self.add(GetLoopsOp(self.block(block.block_name.data), len(around)))
            for value, each in zip(op.results, around, strict=True):
                if each not in self._loops:
                    self.name_loop(value, each)
                value.name_hint = each.induction_variable.name_hint
        return self._loops[loop]

    def knob(self, op: KnobOp) -> None:
        """Record a knob."""
        name = op.knob_name.data
        self._knobs[name] = self.add(op).results[0]
        self._knobs[name].name_hint = name if name.isidentifier() else None

    def number(self, value: int | None) -> int | SSAValue | None:
        """Return the SSA value of the knob that a number comes from, or else the number."""
        if isinstance(value, KnobValue):
            return self._knobs.get(value.knob, int(value))
        return value

    def add(self, op: SchedOp) -> SchedOp:
        """Append a step."""
        self.sequence.body.block.add_op(op)
        observer = _OBSERVER.get()
        if observer is not None and not isinstance(op, GetBlockOp | GetLoopsOp | KnobOp):
            observer(op, self.func)
        return op

    def name_block(self, value: SSAValue, name: str) -> None:
        """Make a result represent a block."""
        self._blocks[name] = value
        value.name_hint = name if name.isidentifier() else None

    def name_loop(self, value: SSAValue, loop: ForOp) -> None:
        """Make a result represent a loop."""
        self._loops[loop] = value
        value.name_hint = loop.induction_variable.name_hint
