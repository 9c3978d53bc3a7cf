"""Bufferisation of loops over time (`graph.scan`) in host functions.

Scanned values become slices of buffers, and loop-carried states alternate between two slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IndexType, MemRefType, i8, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tcopt.dialects import loop
from tcopt.dialects.graph.control.scan import ScanOp
from tcopt.dialects.memory_sizes import live_bytes, memref_bytes
from tcopt.dialects.size import TRIP, sized, sized_memref
from tcopt.passes.loop.bufferize.joins import is_join, is_read_whole, origin_of, producer_of
from tcopt.passes.loop.bufferize.stage_nests import AnyMemRef, memref_of
from tcopt.support.arithmetic.sizes import Extent, upper_bound
from tcopt.support.errors import PassFailedError
from tcopt.support.machines.alignment import ALIGNMENT

if TYPE_CHECKING:
    from tcopt.passes.loop.bufferize.host_lowering import HostLowering

SLOTS = 2
"""Number of slots of a state's double buffer."""


@dataclass
class LoopState:
    """Loop-carried state of a scan.

    Attributes:
        initial: value before the first step.
        result: value after the last step.
        old: argument of the step function.
        new: value that the step function returns.
        last: result buffer of a state that never changes; None for other states.
        collected: index of the collected result that has the same values; None if the state is not
            collected.
        slots: buffer of the slots that steps read: `SLOTS` slots, or one for each step if the state
            is collected.
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
        """Whether the step function returns the state unchanged."""
        return origin_of(self.new) is self.old


class TimeLoop:
    """Lowering of a scan to an `scf.for` whose calls read and write slices of buffers.

    A state has two slots: step t reads slot t mod 2 and writes the other one, so that nothing is
    copied between steps. A state that is also collected is read from the slice that the previous
    step wrote.
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
        self.states = [LoopState(*each) for each in zip(*(g[:count] for g in groups), strict=True)]
        self.collected: list[SSAValue] = []
        # Number of steps that ran, of a conditional scan.
        self.count: SSAValue | None = None

    def lower(self) -> None:
        """Build the loop, and assign buffers to the results of the scan."""
        host, op = self.host, self.op
        count, scanned = op.state_count, op.state_count + op.scanned_count
        self._make_buffers()
        body = Block(arg_types=[IndexType()])
        zero, one = host.index(0, self.location), host.index(1, self.location)
        trip = host.index(op.trip_count, self.location)
        last = host.index(op.trip_count - 1, self.location) if op.reverse is not None else None
        two = host.index(SLOTS, self.location)
        if op.conditional is not None:
            condition = self._condition(trip)
            loop_op = scf.WhileOp([zero], [IndexType()], Region(condition), Region(body))
            self.count = loop_op.results[0]
        else:
            loop_op = scf.ForOp(zero, trip, one, [], Region(body))
        host.insert(loop_op, self.location)
        if op.sizes is not None:
            loop_op.attributes[TRIP] = op.sizes
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
        following = [] if self.count is None else [self._value(arith.AddiOp(time, one))]
        host.insert(scf.YieldOp(*following), self.location)
        host.builder, host.setup = outer
        self._bind_results()

    def _condition(self, trip: SSAValue) -> Block:
        """Return the block that decides whether another step runs, from the first state."""
        block = Block(arg_types=[IndexType()])
        time, state = block.args[0], self.states[0]
        time.name_hint = "t"
        outer, self.host.builder = self.host.builder, Builder(InsertPoint.at_end(block))
        if state.slots is None:
            assert state.last is not None
            buffer = state.last
        else:
            buffer = self._slot(state, time if state.collected is not None else self._parity(time))
        flag = self._value(memref.LoadOp.get(buffer, []))
        below = self._value(arith.CmpiOp(time, trip, "ult"))
        self.host.insert(
            scf.ConditionOp(self._value(arith.AndIOp(flag, below)), time), self.location
        )
        self.host.builder = outer
        return block

    def _make_buffers(self) -> None:
        """Allocate buffers for states and collected results, and copy the initial values."""
        host, op = self.host, self.op
        count = op.state_count
        for position, (result, value) in enumerate(
            zip(op.collected, self.returned[count:], strict=True)
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

    def _state_of(self, value: SSAValue) -> LoopState | None:
        """Return the state whose new value is a given collected value.

        None if there is no such state, or if the loop has no iterations.
        """
        if self.op.trip_count == 0 or producer_of(value) is None:
            return None
        found = (s for s in self.states if s.collected is None and not s.is_constant)
        return next((s for s in found if origin_of(s.new) is origin_of(value)), None)

    def _history(self, state: LoopState, type: AnyMemRef) -> SSAValue:
        """Allocate a buffer for all values of a collected state, and return the collected part.

        The initial value is adjacent to the value of the first step: before it, or after it in a
        reversed scan.
        """
        host, size = self.host, live_bytes(state.type)
        steps, most = self.op.trip_count, memref_bytes(state.type)
        before = 0 if self.op.reverse is not None else -(-most // ALIGNMENT) * ALIGNMENT
        room = before + (upper_bound(steps) + (not before)) * most
        whole = host.alloc(MemRefType(i8, [room]), self.location)
        whole.name_hint = state.result.name_hint
        read = before - size if before else size
        state.slots = self._part(whole, read, sized_memref([steps, size], i8))
        return self._part(whole, before, type)

    def _bind_results(self) -> None:
        """Assign buffers to results: those of the loop, or copies in buffers chosen elsewhere."""
        host, op = self.host, self.op
        for state in self.states:
            if state.last is not None or not state.result.uses:
                continue
            if state.collected is not None:
                at = (
                    self._index_before_end() if op.reverse is None else host.index(0, self.location)
                )
                last = self._slice(self.collected[state.collected], at)
                is_whole = _is_aligned(state.type)
            else:
                last = self._slot(state, self._final_slot())
                is_whole = True
            self._bind(state.result, last, is_whole)
        chosen = {s.collected for s in self.states}
        for position, result in enumerate(op.collected):
            if position in chosen:
                self._bind(result, self.collected[position], True)
        if self.count is not None and op.outputs[-1].uses:
            number = self._value(arith.IndexCastOp(self.count, i64))
            buffer = host.result_buffer(op.outputs[-1], self.location)
            host.insert(memref.StoreOp.get(number, buffer, []), self.location)

    def _index_before_end(self) -> SSAValue:
        """Return the number of steps minus 1."""
        host, steps = self.host, self.op.trip_count
        if self.count is None:
            return host.index(steps - 1, self.location)
        return self._value(arith.SubiOp(self.count, host.index(1, self.location)))

    def _final_slot(self) -> SSAValue:
        """Return the slot that holds a state after the last step."""
        host, steps = self.host, self.op.trip_count
        if self.count is None:
            return host.index(steps % SLOTS, self.location)
        return self._parity(self.count)

    def _parity(self, time: SSAValue) -> SSAValue:
        """Return the slot that the step at a time reads."""
        two = self.host.index(SLOTS, self.location)
        return self._value(arith.RemUIOp(time, two, result_type=IndexType()))

    def _bind(self, result: SSAValue, buffer: SSAValue, is_aligned: bool) -> None:
        host = self.host
        if is_aligned and not host.is_placed(result):
            host.buffers[result] = host.view(buffer, memref_of(result.type), self.location)
        else:
            self._copy(buffer, host.result_buffer(result, self.location))

    def _lower_step(self, targets: Sequence[SSAValue], place: SSAValue) -> None:
        """Lower the loop body; calls write new states and slices in place where possible.

        Args:
            targets: buffers of the new states.
            place: index of the slice of scanned and collected values.
        """
        host, block = self.host, self.step.body.block
        taken = {state.collected for state in self.states}
        slots = list(zip((state.new for state in self.states), targets, strict=True))
        slots = [each for each, state in zip(slots, self.states, strict=True) if state.last is None]
        for position, buffer in enumerate(self.collected):
            if position not in taken:
                value = self.returned[len(self.states) + position]
                slots.append((value, self._slice(buffer, place)))
        # Another scan may use the same step function, with other targets.
        with host.own_targets():
            copied = [(value, slot) for value, slot in slots if not self._writes(value, slot)]
            host.forward_targets(block, self.location)
            host.lower_ops(block)
            for value, slot in copied:
                self._copy(host.buffers[value], slot)

    def _writes(self, value: SSAValue, slot: SSAValue) -> bool:
        """Let the producer of a value write to a slot directly; return False if it cannot."""
        host, producer = self.host, producer_of(value)
        is_aligned = _is_aligned(slot.type)
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
        """Return a slice of a buffer, or an aligned copy if parts of it would be misaligned."""
        found = self._slice(source, place)
        if _is_aligned(found.type) or is_read_whole(argument):
            return found
        aligned = self.host.alloc(cast(AnyMemRef, found.type), self.location)
        self._copy(found, aligned)
        return aligned

    def _slice(self, source: SSAValue, place: SSAValue) -> SSAValue:
        return self._value(loop.SliceOp(source, place))

    def _slot(self, state: LoopState, place: SSAValue) -> SSAValue:
        assert state.slots is not None
        return self._part(self._slice(state.slots, place), 0, state.type)

    def _part(self, bytes: SSAValue, offset: Extent, type: AnyMemRef) -> SSAValue:
        return self.host.part(bytes, offset, type, self.location)

    def _copy(self, source: SSAValue, target: SSAValue) -> None:
        if source is target:
            return
        if sized(target.type) is None:
            self.host.insert(memref.CopyOp(source, target), self.location)
        else:
            self.host.copy(source, target, self.location)

    def _value(self, op: Operation) -> SSAValue:
        return self.host.insert(op, self.location).results[0]


def _is_aligned(type: Attribute) -> bool:
    """Whether all slices of a type in a buffer are known to be aligned."""
    return live_bytes(type) % ALIGNMENT == 0
