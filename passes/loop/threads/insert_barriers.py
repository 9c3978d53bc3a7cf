"""Insertion of barriers between dependent accesses of the threads of a block.

A walk by hand: the plan of a function is applied as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects import loop
from tcopt.dialects.loop.dependences import Alias, Relation, Relations, Touch, alias, touches_of
from tcopt.dialects.loop.memory import ASYNC, FENCE
from tcopt.dialects.loop.structure import is_uniform
from tcopt.dialects.simt_copies import WaitCopiesOp
from tcopt.dialects.target import thread_blocks_of
from tcopt.support.errors import PassFailedError


@dataclass
class BarrierPlan:
    """The ops that need a barrier before them, and whether it must fence global memory."""

    places: dict[Operation, bool] = field(default_factory=dict[Operation, bool])

    def __str__(self) -> str:
        lines = [f"insert-barriers: {len(self.places)} barriers"]
        for op, is_global in self.places.items():
            lines.append(f"  before '{op.name}'" + (", global memory too" if is_global else ""))
        return "\n".join(lines)


def plan_barriers(function: loop.FuncOp) -> BarrierPlan:
    """Plan the barriers of a function's launches.

    Raises:
        PassFailedError: see `insert-barriers`.
    """
    plan = BarrierPlan()
    for nest in function.body.block.ops:
        if isinstance(nest, loop.ForOp | loop.GuardOp):
            _Launch(nest, plan).run()
    return plan


@dataclass(frozen=True)
class InsertBarriersPass(ModulePass):
    """Insert barriers between dependent accesses of different threads of a block.

        loop.for %t = 0 to 64 thread threadIdx.x {
          loop.for %k = 0 to 8 {
            ... loop.store %a, %s[%t]           // of a buffer in shared memory
            ... loop.load %s[%t * -1 + 63]
        ->
        loop.for %t = 0 to 64 thread threadIdx.x {
          loop.for %k = 0 to 8 {
            loop.barrier
            ... loop.store %a, %s[%t]
            loop.barrier
            ... loop.load %s[%t * -1 + 63]

    The elements that each thread accesses are determined exactly, for each pair of accesses, both
    within an iteration of the enclosing loops and between iterations. There is no barrier if a
    thread reads only its own values, if other barriers already order the accesses, or inside of a
    loop if one before it suffices. Barriers are reached by all threads: none is under a condition
    that depends on the thread, or in a loop over some of the threads.

    Asynchronous copies (`async`) write when they start, and again at `simt.wait_copies`: after it,
    a barrier precedes the accesses of other threads.

    The pass runs after `lower-blocks`. Modules for a CPU are not changed.

    Raises:
        PassFailedError: a barrier would be required under a condition that not all threads meet, or
            several threads write the same element at the same time.
    """

    name = "insert-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if thread_blocks_of(op) is not None:
            for function in op.ops:
                if isinstance(function, loop.FuncOp):
                    for place, is_global in plan_barriers(function).places.items():
                        barrier = loop.BarrierOp(is_global=is_global)
                        barrier.location = place.location
                        assert place.parent is not None
                        place.parent.insert_op_before(barrier, place)


@dataclass
class _Part:
    """An op of a block, with its accesses to memory through which threads communicate.

    Attributes:
        first: accesses that may precede all barriers in it.
        last: accesses that may follow all barriers in it.
        waits: whether it always executes a barrier.
        waits_global: whether it always executes a barrier that fences global memory.
    """

    op: Operation
    first: Sequence[Touch] = ()
    last: Sequence[Touch] = ()
    waits: bool = False
    waits_global: bool = False


@dataclass(frozen=True)
class _Order:
    """Order of two accesses in time.

    Attributes:
        common: loops whose iteration is the same for both.
        carrier: the second access happens in a later iteration of this loop.
        is_next: whether that is the next iteration, or any later one.
    """

    common: frozenset[loop.ForOp]
    carrier: loop.ForOp | None = None
    is_next: bool = False

    @property
    def relations(self) -> Relations:
        # Loops that are bound to an axis have one iteration in each thread.
        found: dict[loop.ForOp | loop.ThreadAxis, Relation] = {
            each: Relation.EQUAL for each in self.common if each.axis is None
        }
        if self.carrier is not None:
            found[self.carrier] = Relation.NEXT if self.is_next else Relation.BEFORE
        return found


@dataclass(frozen=True)
class _Pending:
    """An access since the last barrier, possibly in an earlier iteration of the enclosing loop."""

    access: Touch
    is_earlier: bool = False


@dataclass
class _Sequence:
    """The parts of a block, with barriers before some of them."""

    parts: list[_Part]
    common: frozenset[loop.ForOp]
    carrier: loop.ForOp | None
    waiting: set[int] = field(default_factory=set[int])
    global_: set[int] = field(default_factory=set[int])
    """Parts whose barriers fence global memory."""

    @property
    def waits(self) -> bool:
        return bool(self.waiting) or any(part.waits for part in self.parts)


class _Launch:
    """One outermost nest, which is a separate launch."""

    def __init__(self, nest: Operation, plan: BarrierPlan):
        self.nest = nest
        self.plan = plan
        extents: dict[loop.ThreadAxis, int] = {}
        for op in nest.walk():
            if isinstance(op, loop.ForOp) and op.axis is not None:
                axis = op.axis.data
                extents[axis] = max(extents.get(axis, 1), op.trip_count)
        self.extents = extents
        self.threads = [axis for axis in loop.THREAD_AXES if extents.get(axis, 1) > 1]
        self.passing = self._passing()
        self._known_accesses: dict[Operation, Touch] = {}
        self._known_conflicts: dict[tuple[Touch, Touch, _Order], Alias] = {}

    def run(self) -> None:
        # A single thread, such as a kernel that is written as loops, needs no barriers.
        if self.passing and self.threads:
            self._part(self.nest, frozenset())

    def _passing(self) -> set[SSAValue]:
        """Return the buffers through which threads may communicate: non-private ones that the nest
        writes and that have more than one access."""
        uses: dict[SSAValue, list[bool]] = {}
        for op in self.nest.walk():
            if isinstance(op, loop.LoadOp | loop.StoreOp) and not _is_private(op.memref):
                uses.setdefault(op.memref, []).append(isinstance(op, loop.StoreOp))
        return {b for b, writes in uses.items() if any(writes) and (len(writes) > 1)}

    def _accesses(self, op: Operation) -> list[Touch]:
        return [
            self._access(inner)
            for inner in op.walk()
            if isinstance(inner, loop.LoadOp | loop.StoreOp) and inner.memref in self.passing
        ]

    def _access(self, op: loop.LoadOp | loop.StoreOp) -> Touch:
        if op not in self._known_accesses:
            (self._known_accesses[op],) = touches_of(op, op.memref)
        return self._known_accesses[op]

    def _part(self, op: Operation, common: frozenset[loop.ForOp]) -> _Part:
        """Return the accesses of an op, after planning the barriers inside of it.

        Args:
            common: the enclosing loops.
        """
        accesses = self._accesses(op)
        if isinstance(op, loop.BarrierOp):
            return _Part(op, waits=True, waits_global=FENCE in op.attributes)
        if isinstance(op, WaitCopiesOp):
            return _Part(op, last=self._completed(op))
        if not accesses:
            return _Part(op)
        body = self._open_body(op)
        if body is None:
            self._check_alone(op, accesses, common)
            return _Part(op, accesses, accesses)
        around = op if isinstance(op, loop.ForOp) else None
        inside = common if around is None else common | {around}
        repeats = around is not None and around.axis is None and around.trip_count > 1
        parts = [self._part(each, inside) for each in body.ops]
        sequence = _Sequence(parts, inside, around if repeats else None)
        self._place(sequence)
        for position in sequence.waiting:
            self.plan.places[parts[position].op] = position in sequence.global_
        if not sequence.waits or isinstance(op, loop.GuardOp):
            return _Part(op, accesses, accesses)
        waits_global = bool(sequence.global_) or any(part.waits_global for part in parts)
        if not waits_global and any(not _is_shared(each.buffer) for each in accesses):
            return _Part(op, accesses, accesses, waits=True)
        return _Part(op, _before(sequence), _after(sequence), True, waits_global)

    def _completed(self, wait: WaitCopiesOp) -> list[Touch]:
        """Return the writes of copies that a wait completes: any elements of any such buffer.

        They conflict with what follows only: copies are in flight before the wait, too.
        """
        return [Touch(wait, buffer, True, None) for buffer in self.passing if _is_async(buffer)]

    def _open_body(self, op: Operation) -> Block | None:
        """Return the body of an op that all threads execute uniformly, or None."""
        match op:
            case loop.ForOp() if op.axis is not None and op.axis.data in loop.THREAD_AXES:
                everyone = op.trip_count == self.extents[op.axis.data]
                return op.body.block if everyone else None
            case loop.ForOp() if op.loop_kind is not loop.LoopKind.VECTORIZED:
                return op.body.block if all(map(is_uniform, op.operands)) else None
            case loop.GuardOp() if all(map(is_uniform, op.indices)):
                return op.body.block
            case _:
                return None

    def _check_alone(
        self, op: Operation, accesses: Sequence[Touch], common: frozenset[loop.ForOp]
    ) -> None:
        """Check that an op that cannot contain barriers does not need any."""
        order = _Order(common)
        for position, first in enumerate(accesses):
            for second in accesses[position:]:
                found = self._conflict(first, second, order)
                if found is Alias.NEVER:
                    continue
                label = f"%{first.buffer.name_hint or 'unnamed'}"
                if first is second:
                    if found is Alias.CERTAIN and _is_shared(first.buffer):
                        raise PassFailedError(
                            f"several threads write the same element of {label} at a time",
                            op=first.op,
                            hint="bind the loops of the block that writes it to the threads, "
                            "after moving the block",
                        )
                    continue
                raise PassFailedError(
                    f"threads communicate through {label} where there can be no barrier",
                    op=second.op if second.is_write else first.op,
                    hint="put its stores and loads in loops over all threads, "
                    "under no condition on a thread",
                )

    def _conflict(self, first: Touch, second: Touch, order: _Order) -> Alias:
        """Whether two different threads access the same element, one by each access."""
        if first.buffer is not second.buffer or not (first.is_write or second.is_write):
            return Alias.NEVER
        key = first, second, order
        if key not in self._known_conflicts:
            self._known_conflicts[key] = self._between_threads(first, second, order)
        return self._known_conflicts[key]

    def _between_threads(self, first: Touch, second: Touch, order: _Order) -> Alias:
        relations = {**order.relations, **dict.fromkeys(loop.BLOCK_AXES, Relation.EQUAL)}
        found = Alias.NEVER
        # Threads differ if they do along one axis, and are equal along those before it.
        for axis in self.threads:
            for relation in (Relation.BEFORE, Relation.AFTER):
                answer = alias(first, second, {**relations, axis: relation}, self.extents)
                if answer is Alias.CERTAIN:
                    return answer
                found = found if answer is Alias.NEVER else answer
            relations[axis] = Relation.EQUAL
        return found

    def _place(self, sequence: _Sequence) -> None:
        """Choose the fewest positions for barriers in a block."""
        while (position := self._first_conflict(sequence)) is not None:
            sequence.waiting.add(position)
        for position in sorted(sequence.waiting):
            sequence.waiting.remove(position)
            if self._first_conflict(sequence) is not None:
                sequence.waiting.add(position)
        left = set(sequence.waiting)
        while (position := self._first_conflict(sequence, left)) is not None:
            before = [each for each in left if each <= position] or left
            left.remove(max(before))
        sequence.global_ = sequence.waiting - left

    def _first_conflict(self, sequence: _Sequence, only_shared: Collection[int] = ()) -> int | None:
        """Return the first part that conflicts with another thread's access since the last barrier.

        Args:
            only_shared: parts with a barrier before them that only orders shared memory.
        """
        pending: list[_Pending] = []
        for is_second in (False, True) if sequence.carrier is not None else (False,):
            pending = [_Pending(each.access, is_earlier=True) for each in pending]
            for position, part in enumerate(sequence.parts):
                if position in only_shared:
                    pending = [each for each in pending if not _is_shared(each.access.buffer)]
                elif position in sequence.waiting:
                    pending = []
                if self._meets(pending, part, sequence):
                    return position
                if part.waits_global:
                    pending = []
                elif part.waits:
                    pending = [each for each in pending if not _is_shared(each.access.buffer)]
                # Accesses from an earlier iteration are already pending.
                if not is_second or sequence.waits:
                    pending += [_Pending(access) for access in part.last]
        return None

    def _meets(self, pending: Sequence[_Pending], part: _Part, sequence: _Sequence) -> bool:
        carrier = sequence.carrier
        now = _Order(sequence.common)
        if carrier is None:
            later = now
        else:
            later = _Order(sequence.common - {carrier}, carrier, is_next=sequence.waits)
        found = (
            self._conflict(each.access, access, later if each.is_earlier else now)
            for each in pending
            for access in part.first
        )
        return any(each is not Alias.NEVER for each in found)


def _before(sequence: _Sequence) -> list[Touch]:
    """Return the accesses of a block before its first barrier."""
    found: list[Touch] = []
    for position, part in enumerate(sequence.parts):
        if position in sequence.waiting:
            break
        found += part.first
        if part.waits:
            break
    return found


def _after(sequence: _Sequence) -> list[Touch]:
    """Return the accesses of a block after its last barrier."""
    found: list[Touch] = []
    for position, part in reversed(list(enumerate(sequence.parts))):
        found += part.last
        if part.waits or position in sequence.waiting:
            break
    return found


def _is_private(buffer: SSAValue) -> bool:
    """Whether each thread has a separate copy of a buffer."""
    alloc = buffer.owner
    if not isinstance(alloc, loop.AllocOp) or alloc.scope.data.is_shared:
        return False
    if alloc.scope.data.is_private:
        return True
    return any(loop.is_thread(each) for each in loop.enclosing_loops(alloc))


def _is_shared(buffer: SSAValue) -> bool:
    alloc = buffer.owner
    return isinstance(alloc, loop.AllocOp) and alloc.scope.data.is_shared


def _is_async(buffer: SSAValue) -> bool:
    alloc = buffer.owner
    return isinstance(alloc, loop.AllocOp) and ASYNC in alloc.attributes
