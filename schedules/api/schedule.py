"""The `Schedule` of one loop function; each primitive is a method, recorded as it is called.

    sch = Schedule(function)
    mm = sch.get_block("mm")
    i, j, k = sch.get_loops(mm)
    jo, ji = sch.split(j, factors=[None, 16])
    sch.reorder(i, jo, k, ji)
    sch.vectorize(ji)
    print(sch.sequence)

Each method edits the function in place. The function of the same name in `schedules/primitives/`
documents its effect and preconditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute

from tcopt.dialects import sched
from tcopt.dialects.loop import BlockOp, ForOp, FuncOp, Scope, ThreadAxis
from tcopt.dialects.loop.scopes import scope_named
from tcopt.schedules.api.handles import Block, KnobValue, Loop
from tcopt.schedules.api.recorder import Recorder
from tcopt.schedules.dependences.order import Dependences
from tcopt.schedules.primitives.add_unit_loop import add_unit_loop
from tcopt.schedules.primitives.annotate import annotate
from tcopt.schedules.primitives.bind import bind
from tcopt.schedules.primitives.cache_read import cache_read
from tcopt.schedules.primitives.cache_write import cache_write
from tcopt.schedules.primitives.compute_at import compute_at
from tcopt.schedules.primitives.compute_in_place import compute_in_place
from tcopt.schedules.primitives.compute_inline import compute_inline
from tcopt.schedules.primitives.decompose_reduction import decompose_reduction
from tcopt.schedules.primitives.double_buffer import double_buffer
from tcopt.schedules.primitives.fuse import fuse
from tcopt.schedules.primitives.pad_einsum import pad_einsum
from tcopt.schedules.primitives.parallel import parallel
from tcopt.schedules.primitives.permute_layout import permute_layout
from tcopt.schedules.primitives.prefetch import prefetch
from tcopt.schedules.primitives.reorder import reorder
from tcopt.schedules.primitives.reverse_compute_at import reverse_compute_at
from tcopt.schedules.primitives.reverse_compute_inline import reverse_compute_inline
from tcopt.schedules.primitives.rfactor import rfactor
from tcopt.schedules.primitives.set_scope import set_scope
from tcopt.schedules.primitives.split import split
from tcopt.schedules.primitives.storage_align import storage_align
from tcopt.schedules.primitives.tensorize import tensorize
from tcopt.schedules.primitives.unroll import unroll
from tcopt.schedules.primitives.vectorize import vectorize
from tcopt.schedules.primitives.virtual_thread import virtual_thread
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    blocks_under,
    buffers_read,
    buffers_written,
    loops_of,
)
from tcopt.support.errors import InputError, ScheduleError

BlockLike = Block | str
"""A block, or its name."""

__all__ = ["Block", "BlockLike", "Loop", "Schedule"]


class Schedule:
    """Schedule of a loop-level function; its methods are primitives that edit the function.

    Handles identify blocks and loops. A handle is valid as long as its block or loop exists; using
    an invalid handle raises ScheduleError.

    Args:
        func: the function.
        knobs: values that override the defaults of knobs, by name.
    """

    def __init__(self, func: FuncOp, knobs: Mapping[str, int] | None = None):
        self.func = func
        self._state = State(func, Dependences(func))
        self._recorder = Recorder(func)
        self._knobs = dict(knobs or {})
        self._handles: dict[ForOp, Loop] = {}
        self._loop_ops: dict[Loop, ForOp] = {}

    @property
    def sequence(self) -> sched.SequenceOp:
        """The primitives called so far, as IR."""
        return self._recorder.sequence

    # Queries.

    def get_block(self, name: str) -> Block:
        """Return the block of the given name."""
        self._state.block(name)
        return Block(name)

    def blocks(self) -> list[Block]:
        """Return all blocks, in program order."""
        return [_handle(block) for block in blocks_under(self.func)]

    def get_loops(self, block: BlockLike) -> list[Loop]:
        """Return the loops around a block, outermost first."""
        return [self._loop_handle(op) for op in loops_of(self.block_op(block))]

    def block_op(self, block: BlockLike) -> BlockOp:
        """Return the op of a block, for inspection only."""
        return self._state.block(block if isinstance(block, str) else block.name)

    def loop_op(self, loop: Loop) -> ForOp:
        """Return the op of a loop, for inspection only."""
        op = self._loop_ops.get(loop)
        if op is None:
            raise ScheduleError(f"loop %{loop.name} belongs to another schedule")
        if (reason := self._state.gone.get(op)) is not None:
            raise ScheduleError(f"loop %{loop.name} is gone: {reason}")
        return op

    def extent(self, loop: Loop) -> int:
        """Return the trip count of a loop."""
        return self.loop_op(loop).trip_count

    def producers(self, block: BlockLike) -> list[Block]:
        """Return the blocks that write buffers which `block` reads, in program order."""
        op = self.block_op(block)
        found = {w for buffer in buffers_read(op) for w in self._state.writers(buffer)}
        return [_handle(b) for b in blocks_under(self.func) if b in found and b is not op]

    def consumers(self, block: BlockLike) -> list[Block]:
        """Return the blocks that read buffers which `block` writes, in program order."""
        op = self.block_op(block)
        found = {r for buffer in buffers_written(op) for r in self._state.readers(buffer)}
        return [_handle(b) for b in blocks_under(self.func) if b in found and b is not op]

    def knob(self, name: str, candidates: Sequence[int], default: int | None = None) -> int:
        """Return the value of a tunable parameter: the given override, or else the default.

        Args:
            name: unique in the schedule.
            candidates: legal values.
            default: one of the candidates; the first one if None.
        """
        choices = [int(c) for c in dict.fromkeys(candidates)]
        value = self._knobs.get(name, default)
        if value is None:
            value = choices[0] if choices else 0
        if value not in choices:
            raise illegal("knob", "default", f"{value} for '{name}' is not one of {choices}")
        self._recorder.knob(sched.KnobOp(name, choices, value))
        return KnobValue(value, name)

    # Loop structure.

    def split(self, loop: Loop, factors: Sequence[int | None]) -> list[Loop]:
        """Split a loop into a nest, outermost factor first; one factor may be None."""
        value, op = self._recorder.loop(self.loop_op(loop)), self.loop_op(loop)
        loops = split(self._state, op, factors)
        step = sched.SplitOp(value, [self._recorder.number(f) for f in factors])
        return self._add_loops(step, loops)

    def fuse(self, *loops: Loop) -> Loop:
        """Fuse perfectly nested loops, outermost first."""
        ops = [self.loop_op(each) for each in loops]
        values = [self._recorder.loop(op) for op in ops]
        return self._add_loops(sched.FuseOp(values), [fuse(self._state, ops)])[0]

    def reorder(self, *loops: Loop) -> None:
        """Reorder loops of one nest into the given order, outermost first."""
        ops = [self.loop_op(each) for each in loops]
        if len(ops) < 2:
            return
        values = [self._recorder.loop(op) for op in ops]
        reorder(self._state, ops)
        self._recorder.add(sched.ReorderOp(values))

    def add_unit_loop(self, target: BlockLike | Loop) -> Loop:
        """Add a loop with one iteration around a loop or a block."""
        if isinstance(target, Loop):
            op = self.loop_op(target)
            handle = self._recorder.loop(op)
        else:
            op, handle = self.block_op(target), self._recorder.block(_name(target))
        unit = add_unit_loop(self._state, op)
        return self._add_loops(sched.AddUnitLoopOp(handle), [unit])[0]

    # Loop kinds.

    def parallel(self, loop: Loop) -> None:
        """Run the iterations of a loop on several threads."""
        op = self.loop_op(loop)
        value = self._recorder.loop(op)
        parallel(self._state, op)
        self._recorder.add(sched.ParallelOp(value))

    def vectorize(self, loop: Loop) -> None:
        """Turn the iterations of an innermost loop into vector lanes."""
        op = self.loop_op(loop)
        value = self._recorder.loop(op)
        vectorize(self._state, op)
        self._recorder.add(sched.VectorizeOp(value))

    def unroll(self, loop: Loop) -> None:
        """Unroll a loop."""
        op = self.loop_op(loop)
        value = self._recorder.loop(op)
        unroll(self._state, op)
        self._recorder.add(sched.UnrollOp(value))

    def virtual_thread(self, loop: Loop) -> None:
        """Interleave the iterations of a loop in one instruction stream."""
        op = self.loop_op(loop)
        value = self._recorder.loop(op)
        virtual_thread(self._state, op)
        self._recorder.add(sched.VirtualThreadOp(value))

    def bind(self, loop: Loop, axis: ThreadAxis | str) -> None:
        """Run the iterations of a loop on a thread axis such as `threadIdx.x`."""
        op = self.loop_op(loop)
        value = self._recorder.loop(op)
        known = [each.value for each in ThreadAxis]
        if axis not in known:
            raise illegal("bind", "axis", f"'{axis}' is not one of {', '.join(known)}")
        bind(self._state, op, ThreadAxis(axis))
        self._recorder.add(sched.BindOp(value, ThreadAxis(axis)))

    # Block placement.

    def compute_at(self, block: BlockLike, loop: Loop) -> None:
        """Move a producer into a loop around its consumers."""
        op, target = self.block_op(block), self.loop_op(loop)
        values = self._recorder.block(_name(block)), self._recorder.loop(target)
        compute_at(self._state, op, target)
        self._recorder.add(sched.ComputeAtOp(*values))

    def reverse_compute_at(self, block: BlockLike, loop: Loop) -> None:
        """Move a consumer into a loop around its producers."""
        op, target = self.block_op(block), self.loop_op(loop)
        values = self._recorder.block(_name(block)), self._recorder.loop(target)
        reverse_compute_at(self._state, op, target)
        self._recorder.add(sched.ReverseComputeAtOp(*values))

    def compute_inline(self, block: BlockLike) -> None:
        """Inline a producer into its consumers."""
        op, value = self.block_op(block), self._recorder.block(_name(block))
        compute_inline(self._state, op)
        self._recorder.add(sched.ComputeInlineOp(value))

    def reverse_compute_inline(self, block: BlockLike) -> None:
        """Inline a consumer into its producer."""
        op, value = self.block_op(block), self._recorder.block(_name(block))
        reverse_compute_inline(self._state, op)
        self._recorder.add(sched.ReverseComputeInlineOp(value))

    # Reductions.

    def decompose_reduction(self, block: BlockLike, loop: Loop) -> Block:
        """Split off the initialisation of a reduction, before `loop`; return its block."""
        op, target = self.block_op(block), self.loop_op(loop)
        values = self._recorder.block(_name(block)), self._recorder.loop(target)
        made = decompose_reduction(self._state, op, target)
        return self._add_block(sched.DecomposeReductionOp(*values), made)

    def rfactor(self, loop: Loop, axis: int = 0) -> Block:
        """Compute partial results of a reduction, one for each iteration of `loop`, in a new block.

        Args:
            axis: the dimension of the partial results' buffer that `loop` indexes.
        Returns:
            The block that computes the partial results.
        """
        op = self.loop_op(loop)
        value = self._recorder.loop(op)
        return self._add_block(sched.RfactorOp(value, axis), rfactor(self._state, op, axis))

    def pad_einsum(self, block: BlockLike, multiples: Sequence[int]) -> None:
        """Round the extents of a contraction up to multiples, one for each variable."""
        op, value = self.block_op(block), self._recorder.block(_name(block))
        pad_einsum(self._state, op, multiples)
        self._recorder.add(sched.PadEinsumOp(value, multiples))

    # Hardware.

    def tensorize(self, target: BlockLike | Loop, intrinsic: str) -> None:
        """Replace a loop nest, or the loops around a block, by a hardware intrinsic."""
        if isinstance(target, Loop):
            op = self.loop_op(target)
            handle = self._recorder.loop(op)
        else:
            op, handle = self.block_op(target), self._recorder.block(_name(target))
        tensorize(self._state, op, intrinsic)
        self._recorder.add(sched.TensorizeOp(handle, intrinsic))

    # Buffers.

    def cache_read(
        self,
        block: BlockLike,
        buffer: int | str,
        scope: Scope | str,
        steps: Sequence[int] | None = None,
    ) -> Block:
        """Make a block read a copy of a buffer; return the copying block.

        Args:
            buffer: its name, or its position among the block's reads.
            steps: strides of the copied elements, one for each dimension.
        """
        op, value = self.block_op(block), self._recorder.block(_name(block))
        where = _scope("cache_read", scope)
        made = cache_read(self._state, op, buffer, where, steps)
        return self._add_block(sched.CacheReadOp(value, buffer, where, steps), made)

    def cache_write(self, block: BlockLike, scope: Scope | str) -> Block:
        """Make a block write a new buffer; return the block that copies it to the old one."""
        op, value = self.block_op(block), self._recorder.block(_name(block))
        where = _scope("cache_write", scope)
        made = cache_write(self._state, op, where)
        return self._add_block(sched.CacheWriteOp(value, where), made)

    def compute_in_place(self, block: BlockLike, buffer: int) -> None:
        """Make a block overwrite one of the buffers it reads, given by its position."""
        op, value = self.block_op(block), self._recorder.block(_name(block))
        compute_in_place(self._state, op, buffer)
        self._recorder.add(sched.ComputeInPlaceOp(value, buffer))

    def set_scope(self, block: BlockLike, scope: Scope | str) -> None:
        """Move the buffer that a block writes to another memory scope."""
        op, value = self.block_op(block), self._recorder.block(_name(block))
        where = _scope("set_scope", scope)
        set_scope(self._state, op, where)
        self._recorder.add(sched.SetScopeOp(value, where))

    def storage_align(self, block: BlockLike, dim: int, factor: int, offset: int) -> None:
        """Align the row stride of the buffer that a block writes.

        Args:
            dim: a dimension other than the last.
            factor, offset: the stride becomes a multiple of `factor` plus `offset` elements.
        """
        op, value = self.block_op(block), self._recorder.block(_name(block))
        storage_align(self._state, op, dim, factor, offset)
        self._recorder.add(sched.StorageAlignOp(value, dim, factor, offset))

    def permute_layout(self, block: BlockLike, order: Sequence[int]) -> None:
        """Permute the dimensions of the buffer that a block writes.

        Args:
            order: the old dimension for each new dimension.
        """
        op, value = self.block_op(block), self._recorder.block(_name(block))
        permute_layout(self._state, op, order)
        self._recorder.add(sched.PermuteLayoutOp(value, order))

    def double_buffer(self, block: BlockLike, slots: int = 2) -> None:
        """Fetch later tiles of the buffer that a block fills while the current tile is in use.

        Args:
            slots: number of tiles held at once.
        """
        op, value = self.block_op(block), self._recorder.block(_name(block))
        double_buffer(self._state, op, slots)
        self._recorder.add(sched.DoubleBufferOp(value, slots))

    def prefetch(self, block: BlockLike, buffer: int, ahead: Loop, at: Loop) -> None:
        """Prefetch the elements that a block reads in the next iteration of `ahead`.

        Args:
            buffer: its position among the block's reads.
            at: loop inside of `ahead` whose iterations share the prefetches.
        """
        op, value = self.block_op(block), self._recorder.block(_name(block))
        loops = self.loop_op(ahead), self.loop_op(at)
        values = [self._recorder.loop(each) for each in loops]
        prefetch(self._state, op, buffer, *loops)
        self._recorder.add(sched.PrefetchOp(value, buffer, *values))

    def annotate(
        self, target: BlockLike | Loop, key: str, value: Attribute | int | str | bool
    ) -> None:
        """Set an attribute on a block or loop."""
        attribute = _attribute(value)
        if isinstance(target, Loop):
            op = self.loop_op(target)
            handle = self._recorder.loop(op)
        else:
            op, handle = self.block_op(target), self._recorder.block(_name(target))
        annotate(self._state, op, key, attribute)
        self._recorder.add(sched.AnnotateOp(handle, key, attribute))

    # Handles.

    def _loop_handle(self, op: ForOp) -> Loop:
        if op not in self._handles:
            handle = Loop(op.induction_variable.name_hint)
            self._handles[op] = handle
            self._loop_ops[handle] = op
        return self._handles[op]

    def _add_loops(self, step: sched.SchedOp, loops: Sequence[ForOp]) -> list[Loop]:
        self._recorder.add(step)
        for value, loop in zip(step.results, loops, strict=True):
            self._recorder.name_loop(value, loop)
        return [self._loop_handle(loop) for loop in loops]

    def _add_block(self, step: sched.SchedOp, block: BlockOp) -> Block:
        self._recorder.add(step)
        self._recorder.name_block(step.results[0], block.block_name.data)
        return _handle(block)


def _handle(block: BlockOp) -> Block:
    return Block(block.block_name.data)


def _name(block: BlockLike) -> str:
    return block if isinstance(block, str) else block.name


def _scope(primitive: str, scope: Scope | str) -> Scope:
    if isinstance(scope, Scope):
        return scope
    try:
        return scope_named(scope)
    except InputError as error:
        raise illegal(primitive, "scope", error.message, hint=error.hint) from None


def _attribute(value: Attribute | int | str | bool) -> Attribute:
    match value:
        case Attribute():
            return value
        case bool():
            return UnitAttr() if value else IntegerAttr.from_bool(False)
        case int():
            return IntegerAttr(value, i64)
        case str():
            return StringAttr(value)
