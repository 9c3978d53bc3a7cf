"""Chains of operators that an accelerator applies to accumulated sums before it stores them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, element_type, shape_of
from tcopt.dialects.graph.elementwise.arithmetic import AddOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.elementwise.functions import MaxOp, MinOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.target.accelerator import Alu, MatrixUnit
from tcopt.passes.graph.folding.constants import Constants
from tcopt.passes.graph.placement.blocks import laid_back, laid_out
from tcopt.passes.graph.placement.offload import Offload
from tcopt.passes.graph.placement.registers import Registers, on_alu
from tcopt.passes.graph.precision.integer_ranges import IntegerRanges
from tcopt.support.arithmetic.intervals import Range, is_within

_BYTES = (-128, 127)
_IMMEDIATE = 1 << 15


@dataclass
class Claims:
    """The ops that are already part of a chain.

    Attributes:
        ops: ops of the graph that belong to chains.
        inner: values inside of chains, which are not computed separately if the chain is chosen.
    """

    ops: set[Operation] = field(default_factory=set[Operation])
    inner: set[SSAValue] = field(default_factory=set[SSAValue])

    def take(self, chain: AluChain) -> None:
        """Record the ops of a chain."""
        self.ops.update(chain.followed)
        self.inner.update(op.results[0] for op in chain.followed if op is not chain.end)


@dataclass
class AluChain:
    """An operator and its users, in the form that the accelerator computes: from bytes to bytes.

    Rules of operators (`on_alu`) build their operations on it.

    Attributes:
        op: operator that the matrix unit computes, or the ALU alone.
        unit, alu: the units; without an ALU the chain is `op` alone.
        before: constants, and ops on the host that prepare operands.
        body: ops that the accelerator computes; the last one is the result.
        followed: ops of the graph that the body replaces, `op` first.
        reads: values of the graph that the body reads, before they are converted.
        claims: ops of other chains.
        slack: permitted difference of integers from the host's; notes: texts for remarks.
        shape, channel: shape of the current result, and the index of its channel dimension, if any.
    """

    op: GraphOp
    form: Offload
    unit: MatrixUnit
    alu: Alu | None
    constants: Constants
    ranges: IntegerRanges
    before: list[GraphOp] = field(default_factory=list[GraphOp])
    body: list[GraphOp] = field(default_factory=list[GraphOp])
    followed: list[GraphOp] = field(default_factory=list[GraphOp])
    reads: list[SSAValue] = field(default_factory=list[SSAValue])
    claims: Claims = field(default_factory=Claims)
    slack: int = 0
    notes: list[str] = field(default_factory=list[str])
    shape: tuple[int, ...] = ()
    channel: int | None = None
    _known: dict[SSAValue, Registers] = field(default_factory=dict[SSAValue, Registers])
    _numbers: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])

    def __post_init__(self) -> None:
        self.before, self.body = list(self.form.before), list(self.form.body)
        self.followed, self.reads = [self.op], [self.op.operands[0]]
        self.shape, self.channel = self.op.shape, self.form.channel

    def follow(self) -> str | None:
        """Extend the chain to its last result that fits bytes; return the reason if none does."""
        product = self.form.body[-1].results[0]
        value = self.op.results[0]
        self._known[value] = Registers(product, np.zeros((), np.int64), self.form.bound)
        reason = "its sums are not requantised to bytes"
        found: tuple[Registers, int, int, int, int] | None = None
        while True:
            limits = self.ranges.of(value)
            if are_bytes(limits) and not isinstance(self.end, ReshapeOp):
                sizes = len(self.before), len(self.body), len(self.followed), len(self.reads)
                found = self._known[value], *sizes
            users = self.users(value)
            if len(users) != 1 or not self._keeps_elements(users[0]):
                break
            registers = on_alu(users[0], self)
            if isinstance(registers, str):
                reason = registers
                break
            value = users[0].results[0]
            self._move_to(shape_of(value))
            self._known[value] = registers
            self.followed.append(users[0])
        if found is None:
            return reason
        registers, *kept = found
        for ops, count in zip((self.before, self.body), kept, strict=False):
            drop(ops[count:])
            del ops[count:]
        self._numbers = {n: v for n, v in self._numbers.items() if v.owner in self.before}
        del self.followed[kept[2] :]
        del self.reads[kept[3] :]
        self.add(CastOp(self.settled(registers).value, i8))
        return None

    @property
    def end(self) -> GraphOp:
        """Op of the graph whose result the accelerator stores."""
        return self.followed[-1]

    def after(self, result: SSAValue) -> Iterator[GraphOp]:
        """Yield the ops on the host that convert the stored result to the result in the graph."""
        product = self.form.body[-1].results[0]
        if self.end is self.op and element_type(result) == element_type(product):
            for each in self.form.after:
                each.operands = [result if value is product else value for value in each.operands]
                yield each
            return
        made = laid_back(self.form.after, result)
        drop(self.form.after)
        yield from made
        plain: GraphOp = made[-1]
        if shape_of(self.end.results[0]) != plain.shape:
            plain = ReshapeOp(plain, shape_of(self.end.results[0]))
            yield plain
        if element_type(self.end.results[0]) != element_type(result):
            yield CastOp(plain, element_type(self.end.results[0]))

    def cycles(self) -> int:
        """Return the cycles of the ALU, and of resetting registers."""
        total = 0
        lanes = self.unit.lanes * self.unit.rows
        whole = prod(shape_of(self.body[-1].results[0]))
        for each in self.body[len(self.form.body) : -1]:
            if self.alu is None or isinstance(each, CastOp):
                continue
            by_number = any(prod(shape_of(value)) == 1 for value in each.operands)
            total += self.alu.number_cycles if by_number else self.alu.register_cycles
        steps = 0 if self.alu is None else self.form.steps * self.alu.register_cycles
        return ((total + self.unit.cycles) * whole + steps) // lanes

    def drop(self) -> None:
        """Erase the ops that were created for the chain."""
        drop([*self.before, *self.body, *self.form.after])

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.op.shape[self.form.channel]

    def _keeps_elements(self, op: GraphOp) -> bool:
        """Whether an operator's result has the same elements in the same order."""
        return isinstance(op, ReshapeOp) or shape_of(op.results[0]) == self.shape

    def _move_to(self, shape: tuple[int, ...]) -> None:
        """Continue with the elements in another shape."""
        if shape == self.shape:
            return
        before = prod(self.op.shape[: self.form.channel])
        fitting = (
            dim
            for dim, extent in enumerate(shape)
            if extent == self.channels and prod(shape[:dim]) == before
        )
        self.shape, self.channel = shape, next(fitting, None)

    # The interface that rules use

    @property
    def multiplies(self) -> bool:
        """Whether the ALU computes the high halves of products."""
        return self.alu is not None and self.alu.multiplies

    def number(self, value: SSAValue) -> Array | None:
        """Return the value of a compile-time constant with one element, or one for each channel."""
        array = self.ranges.array(value)
        if array is None or array.ndim > len(self.shape):
            return None
        shape = (1,) * (len(self.shape) - array.ndim) + array.shape
        if any(extent != 1 for dim, extent in enumerate(shape) if dim != self.channel):
            return None
        return array.reshape(() if array.size == 1 else -1)

    def operand(self, value: SSAValue) -> Registers | None:
        """Return an operand in registers, or None."""
        if value not in self._known:
            if value in self.claims.inner or shape_of(value) != self.shape:
                return None
            found, owner = self._loaded(value), value.owner
            if found is None and isinstance(owner, GraphOp) and owner not in self.claims.ops:
                made = on_alu(owner, self)
                found = None if isinstance(made, str) else made
            if found is None:
                return None
            self._known[value] = found
        return self._known[value]

    def settled(self, registers: Registers) -> Registers:
        """Return the registers after applying their pending offset and limits."""
        value, offset = registers.value, registers.offset
        if offset.any():
            value = self.add(AddOp(value, self.table(offset)))
        if registers.limits is None:
            return replace(registers, value=value, offset=np.zeros((), np.int64))
        low, high = registers.limits
        bound = registers.bound
        if low > -bound:
            value = self.add(MaxOp(value, self.constant(low)))
        if high < bound:
            value = self.add(MinOp(value, self.constant(high)))
        bound = min(bound, max(abs(low), abs(high)))
        return Registers(value, np.zeros((), np.int64), bound)

    def add(self, op: GraphOp) -> SSAValue:
        """Append an operation of the ALU."""
        self.body.append(op)
        return op.results[0]

    def constant(self, number: int) -> SSAValue:
        """Return a 32-bit constant."""
        if number not in self._numbers:
            made = ConstantOp.literal(np.array(number, np.int32))
            self.before.append(made)
            self._numbers[number] = made.results[0]
        return self._numbers[number]

    def _loaded(self, value: SSAValue) -> Registers | None:
        """Load a byte tensor of the graph into registers, in the layout of the results."""
        limits = self.ranges.of(value)
        if limits is None or not are_bytes(limits):
            return None
        if self.alu is None or not self.alu.loads_bytes:
            return None
        self.reads.append(value)
        narrow = value
        if element_type(value) != i8:
            cast = CastOp(value, i8)
            self.before.append(cast)
            narrow = cast.results[0]
        if self.shape != self.op.shape:
            self.before.append(ReshapeOp(narrow, self.op.shape))
            narrow = self.before[-1].results[0]
        self.before += laid_out(self.form.after, narrow)
        wide = self.add(CastOp(self.before[-1], i32))
        return Registers(wide, np.zeros((), np.int64), max(map(abs, limits)))

    def table(self, numbers: Array, *, is_register: bool = False) -> SSAValue:
        """Return a 32-bit constant with one value, or one for each channel."""
        is_small = numbers.min() == numbers.max() and abs(int(numbers.flat[0])) < _IMMEDIATE
        if is_small and not is_register:
            return self.constant(int(numbers.flat[0]))
        channels, *space, lanes = shape_of(self.form.body[-1].results[0])[1:]
        filled = np.zeros(channels * lanes, np.int32)
        plain = self.by_channel(numbers)
        filled[: plain.size] = plain
        shape = (1, channels, *[1] * len(space), lanes)
        made = self.constants.make(filled.reshape(shape), "offsets")
        self.before.append(made)
        return made.results[0]

    def by_channel(self, numbers: Array) -> Array:
        """Broadcast values to one for each channel."""
        return np.broadcast_to(numbers.reshape(-1), (self.channels,))

    def reach(self, registers: Registers) -> tuple[Array, Array]:
        """Return the minimum and maximum per channel of a register's values; for sums they follow
        from the weights, if these are known."""
        if registers.value is self.form.body[-1].results[0]:
            found = self._reach_of_sums()
            if found is not None:
                return found
        most = np.full(self.channels, registers.bound, np.int64)
        return -most, most

    def note(self, text: str) -> None:
        """Add a text to the chain's remark."""
        self.notes.append(text)

    def _reach_of_sums(self) -> tuple[Array, Array] | None:
        """Return the minimum and maximum of the sums per channel; None if weights are unknown."""
        product = self.form.body[-1]
        weight, limits = self.op.linear_weight(), self.ranges.of(product.operands[0])
        factors = None if weight is None else self.ranges.array(self.op.operands[weight.operand])
        if weight is None or limits is None or factors is None:
            return None
        # Block padding and zero pads are 0; other pads are materialised.
        low, high = min(limits[0], 0), max(limits[1], 0)
        rows = np.moveaxis(factors.astype(np.int64), weight.axis, 0)
        rows = rows.reshape(rows.shape[0], -1)
        up, down = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
        return up * low + down * high, up * high + down * low

    def users(self, value: SSAValue) -> list[GraphOp]:
        """Return the ops of the graph that use a value; none if it has another user, such as a
        chain that loads it."""
        users = dict.fromkeys(use.operation for use in value.uses)
        own = {*self.before, *self.body}
        found = [
            op
            for op in users
            if isinstance(op, GraphOp)
            and op.parent is self.op.parent
            and len(op.results) == 1
            and op not in self.claims.ops
        ]
        return found if len(found) == len(users.keys() - own) else []


def are_bytes(limits: Range | None) -> bool:
    """Whether integers are in the range of signed bytes."""
    return limits is not None and is_within(limits, _BYTES)


def drop(ops: Sequence[GraphOp]) -> None:
    """Erase ops that are in no block, so that they no longer use their operands."""
    for op in reversed(ops):
        op.drop_all_references()
