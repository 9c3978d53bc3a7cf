"""Loops over time in host functions: slices of buffers, and states that alternate between slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IndexType, MemRefType, i8
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tcopt.dialects import loop
from tcopt.dialects.graph.scan import ScanOp
from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.passes.loop.bufferize.joins import is_join, is_read_whole, origin_of, producer_of
from tcopt.passes.loop.bufferize.stage_nests import AnyMemRef, memref_of
from tcopt.support.alignment import ALIGNMENT
from tcopt.support.errors import PassFailedError

if TYPE_CHECKING:
    from tcopt.passes.loop.bufferize.host_lowering import HostLowering

SLOTS = 2
"""Slots that a state alternates between."""


@dataclass
class State:
    """A state of a loop.

    Attributes:
        initial: its value before the first step.
        result: its value after the last step.
        old: the argument of the step.
        new: what the step returns.
        last: the buffer of its value after the last step.
        collected: the position of the same value among the collected results; None if it is
            not collected.
        slots: the buffer of `SLOTS` slots, or of those that steps read where it is collected.
    """

    initial: SSAValue
    result: SSAValue
    old: SSAValue
    new: SSAValue
    last: SSAValue | None = None
    collected: int | None = None
    slots: SSAValue | None = None

    @property
    def type(self) -> AnyMemRef:
        return memref_of(self.result.type)

    @property
    def is_constant(self) -> bool:
        """Whether all steps return the state that they are given."""
        return origin_of(self.new) is self.old


class TimeLoop:
    """The lowering of a scan: `scf.for`, whose calls read and write slices of buffers.

    A state has two slots. Step t reads slot t mod 2, and writes the other one, so nothing is copied
    between steps. A state that is also collected is read from the slice that the step before wrote.
    """

    def __init__(self, host: HostLowering, op: ScanOp, step: func.FuncOp):
        self.host, self.op, self.step = host, op, step
        self.location = op.location
        last = step.body.block.last_op
        if not isinstance(last, func.ReturnOp):
            raise PassFailedError("does not end in func.return", op=step)
        self.returned: Sequence[SSAValue] = last.arguments
        count = op.state_count
        groups = op.inputs, op.outputs, step.body.block.args, self.returned
        self.states = [State(*each) for each in zip(*(g[:count] for g in groups), strict=True)]
        self.collected: list[SSAValue] = []

    def lower(self) -> None:
        """Write the loop, and bind the buffers of its results."""
        host, op = self.host, self.op
        count, scanned = op.state_count, op.state_count + op.scanned_count
        self._make_buffers()
        body = Block(arg_types=[IndexType()])
        zero, one = host.index(0, self.location), host.index(1, self.location)
        trip = host.index(op.trip_count, self.location)
        last = host.index(op.trip_count - 1, self.location) if op.reverse is not None else None
        two = host.index(SLOTS, self.location)
        loop_op = host.insert(scf.ForOp(zero, trip, one, [], Region(body)), self.location)
        outer = host.builder, host.setup
        if host.setup is host.builder:
            host.setup = Builder(InsertPoint.before(loop_op))
        host.builder = Builder(InsertPoint.at_end(body))
        time: SSAValue = body.args[0]
        time.name_hint = "t"
        place = time if last is None else self._value(arith.SubiOp(last, time))
        targets: list[SSAValue] = []
        parity: tuple[SSAValue, SSAValue] | None = None
        for state in self.states:
            if state.slots is None:
                assert state.last is not None
                host.buffers[state.old] = targets_of = state.last
            elif state.collected is not None:
                host.buffers[state.old] = self._slot(state, place)
                targets_of = self._slice(self.collected[state.collected], place)
            else:
                if parity is None:
                    old = self._value(arith.RemUIOp(time, two, result_type=IndexType()))
                    parity = old, self._value(arith.SubiOp(one, old))
                host.buffers[state.old] = self._slot(state, parity[0])
                targets_of = self._slot(state, parity[1])
            targets.append(targets_of)
        arguments = self.step.body.block.args[count:]
        for argument, value in zip(arguments, op.inputs[count:scanned], strict=False):
            host.buffers[argument] = self._slice_in(host.buffers[value], place, argument)
        fixed = zip(arguments[op.scanned_count :], op.inputs[scanned:], strict=True)
        host.buffers.update((argument, host.buffers[value]) for argument, value in fixed)
        self._lower_step(targets, place)
        host.insert(scf.YieldOp(), self.location)
        host.builder, host.setup = outer
        self._bind_results()

    def _make_buffers(self) -> None:
        """Buffers of states and of collected slices; states get their initial values."""
        host, op = self.host, self.op
        count = op.state_count
        for position, (result, value) in enumerate(
            zip(op.outputs[count:], self.returned[count:], strict=True)
        ):
            state = self._state_of(value)
            if state is None:
                self.collected.append(host.result_buffer(result, self.location))
            else:
                state.collected = position
                self.collected.append(self._history(state, memref_of(result.type)))
        for state in self.states:
            if state.is_constant:
                state.last = first = host.result_buffer(state.result, self.location)
            elif state.collected is not None:
                at = op.trip_count - 1 if op.reverse is not None else 0
                first = self._slot(state, host.index(at, self.location))
            else:
                size = -(-memref_bytes(state.type) // ALIGNMENT) * ALIGNMENT
                state.slots = host.alloc(MemRefType(i8, [SLOTS, size]), self.location)
                state.slots.name_hint = state.result.name_hint
                first = self._slot(state, host.index(0, self.location))
            self._copy(host.buffers[state.initial], first)

    def _state_of(self, value: SSAValue) -> State | None:
        """The state that is collected as a value, of a loop with a step; None for other values."""
        if not self.op.trip_count or producer_of(value) is None:
            return None
        found = (s for s in self.states if s.collected is None and not s.is_constant)
        return next((s for s in found if origin_of(s.new) is origin_of(value)), None)

    def _history(self, state: State, type: AnyMemRef) -> SSAValue:
        """A buffer of all values of a state, in the order of slices; that of the collected ones.

        In memory the initial value is next to what the first step writes.
        """
        host, size = self.host, memref_bytes(state.type)
        steps = self.op.trip_count
        before = 0 if self.op.reverse is not None else -(-size // ALIGNMENT) * ALIGNMENT
        whole = host.alloc(MemRefType(i8, [before + (steps + (not before)) * size]), self.location)
        whole.name_hint = state.result.name_hint
        read = before - size if before else size
        state.slots = self._part(whole, read, MemRefType(i8, [steps, size]))
        return self._part(whole, before, type)

    def _bind_results(self) -> None:
        """The buffers of results: copies where others choose them, else those of the loop."""
        host, op = self.host, self.op
        steps = op.trip_count
        for state in self.states:
            if state.last is not None or not state.result.uses:
                continue
            if state.collected is not None:
                at = 0 if op.reverse is not None else steps - 1
                last = self._slice(self.collected[state.collected], host.index(at, self.location))
                is_whole = memref_bytes(state.type) % ALIGNMENT == 0
            else:
                last = self._slot(state, host.index(steps % SLOTS, self.location))
                is_whole = True
            self._bind(state.result, last, is_whole)
        chosen = {s.collected for s in self.states}
        for position, result in enumerate(op.outputs[op.state_count :]):
            if position in chosen:
                self._bind(result, self.collected[position], True)

    def _bind(self, result: SSAValue, buffer: SSAValue, is_aligned: bool) -> None:
        host = self.host
        if is_aligned and not host.is_placed(result):
            host.buffers[result] = host.view(buffer, memref_of(result.type), self.location)
        else:
            self._copy(buffer, host.result_buffer(result, self.location))

    def _lower_step(self, targets: Sequence[SSAValue], place: SSAValue) -> None:
        """The body of the loop: calls, which write new states and slices in place where they can.

        Args:
            targets: the buffers of new states.
        """
        host, block = self.host, self.step.body.block
        taken = {state.collected for state in self.states}
        slots = list(zip((state.new for state in self.states), targets, strict=True))
        slots = [each for each, state in zip(slots, self.states, strict=True) if state.last is None]
        for position, buffer in enumerate(self.collected):
            if position not in taken:
                value = self.returned[len(self.states) + position]
                slots.append((value, self._slice(buffer, place)))
        # Another scan of the same function writes elsewhere.
        with host.own_targets():
            copied = [(value, slot) for value, slot in slots if not self._writes(value, slot)]
            host.forward_targets(block, self.location)
            host.lower_ops(block)
            for value, slot in copied:
                self._copy(host.buffers[value], slot)

    def _writes(self, value: SSAValue, slot: SSAValue) -> bool:
        """Let the op that computes a value write it to a slot, unless it writes elsewhere."""
        host, producer = self.host, producer_of(value)
        is_aligned = memref_bytes(slot.type) % ALIGNMENT == 0
        if producer is None:
            whole = origin_of(value)
            if not is_join(whole) or not is_aligned or whole in host.wholes:
                return False
            host.wholes[whole] = host.bytes_of(slot, self.location)
            return True
        if producer in host.targets or not (is_aligned or is_read_whole(producer)):
            return False
        host.targets[producer] = lambda: host.view(slot, memref_of(producer.type), self.location)
        return True

    def _slice_in(self, source: SSAValue, place: SSAValue, argument: SSAValue) -> SSAValue:
        """A slice of a buffer; a copy of it if parts of it would start at unaligned addresses."""
        found = self._slice(source, place)
        if memref_bytes(found.type) % ALIGNMENT == 0 or is_read_whole(argument):
            return found
        aligned = self.host.alloc(cast(AnyMemRef, found.type), self.location)
        self._copy(found, aligned)
        return aligned

    def _slice(self, source: SSAValue, place: SSAValue) -> SSAValue:
        return self._value(loop.SliceOp(source, place))

    def _slot(self, state: State, place: SSAValue) -> SSAValue:
        assert state.slots is not None
        return self._part(self._slice(state.slots, place), 0, state.type)

    def _part(self, bytes: SSAValue, offset: int, type: AnyMemRef) -> SSAValue:
        """A view of some bytes."""
        at = self.host.index(offset, self.location)
        return self._value(memref.ViewOp(bytes, at, [], type))

    def _copy(self, source: SSAValue, target: SSAValue) -> None:
        if source is not target:
            self.host.insert(memref.CopyOp(source, target), self.location)

    def _value(self, op: loop.SliceOp | memref.ViewOp | arith.SubiOp | arith.RemUIOp) -> SSAValue:
        return self.host.insert(op, self.location).results[0]
