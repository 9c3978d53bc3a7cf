"""Virtual threads in the stream of one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import is_side_effect_free

from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.dialects.target import target_facts_of
from tcopt.passes.loop.analysis.instructions import path_to_call
from tcopt.passes.loop.edits.dimensions import (
    accesses_of,
    add_dimension,
    add_tile_dimension,
    reshape,
)
from tcopt.support.rewriting import rewrite

_MOST_COPIES = 32
"""Most virtual threads that are written out."""

_PASSED = (loop.LoopKind.SERIAL, loop.LoopKind.UNROLLED, loop.LoopKind.THREAD)


class InjectVirtualThread(RewritePattern):
    """Move a loop over virtual threads, in which there is no other, to what differs among them.

    loop.for %v = 0 to 2 virtual {
      %r = loop.alloc register : memref<1xf32>
      loop.for %k = 0 to 8 {
        ... loop.store %a, %s[%k]           // shared memory
        %b = loop.load %s[%k * 2 + %v]
        loop.store %b, %r[0]
    ->
    %r = loop.alloc register : memref<2x1xf32>
    loop.for %k = 0 to 8 {
      ... loop.store %a, %s[%k]
      loop.for %v = 0 to 2 unrolled {
        %b = loop.load %s[%k * 2 + %v]
        loop.store %b, %r[%v, 0]
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.ForOp, rewriter: PatternRewriter) -> None:
        if _is_virtual(op) and not any(_is_virtual(i) for i in op.walk() if i is not op):
            _Injection(op).run(rewriter)


def _is_virtual(op: Operation) -> bool:
    return isinstance(op, loop.ForOp) and op.loop_kind is loop.LoopKind.VIRTUAL


@dataclass(frozen=True)
class InjectVirtualThreadsPass(ModulePass):
    """Interleaves virtual threads in the stream of the thread that runs them all.

    The loop over them moves inwards, to the statements that differ from one to the next. What
    they do alike, such as filling memory that the threads of a block share, is done once; each
    has its own part of registers.

        loop.for %v = 0 to 2 virtual {
          %r = loop.alloc register : memref<1xf32>
          loop.for %k = 0 to 8 {
            ... loop.store %a, %s[%k]           // shared memory
            %b = loop.load %s[%k * 2 + %v]
            loop.store %b, %r[0]
        ->
        %r = loop.alloc register : memref<2x1xf32>
        loop.for %k = 0 to 8 {
          ... loop.store %a, %s[%k]
          loop.for %v = 0 to 2 unrolled {
            %b = loop.load %s[%k * 2 + %v]
            loop.store %b, %r[%v, 0]

    The same with an accelerator, in whose memories each thread has its own part of what differs.
    There loops around one call of an intrinsic stay whole, as they are those of an instruction:
    the threads' instructions follow each other in one stream, and those of one wait while those
    of another are executed.

        loop.for %v = 0 to 2 virtual {
          %c = loop.alloc acc_register : memref<4x16xi32>
          loop.for %k = 0 to 8 {
            %a = loop.alloc acc_input : memref<4x16xi8>
            loop.for %i = 0 to 4 { loop.intrin "vdla_load_inp_1x16" outs(%a[%i, 0]) .. }
            loop.for %i = 0 to 4 { loop.intrin "vdla_gemm_1x16x16" outs(%c[%i, 0]) .. %w[%v, ..] }
        ->
        %c = loop.alloc acc_register : memref<2x4x16xi32>
        loop.for %k = 0 to 8 {
          %a = loop.alloc acc_input : memref<4x16xi8>
          loop.for %i = 0 to 4 { loop.intrin "vdla_load_inp_1x16" outs(%a[%i, 0]) .. }
          loop.for %v = 0 to 2 unrolled {
            loop.for %i = 0 to 4 { loop.intrin "vdla_gemm_1x16x16" outs(%c[%v, %i, 0]) .. }

    It comes after `lower-blocks`. Nothing is done in a module for neither.
    """

    name = "inject-virtual-threads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        if target is not None and (target.threads is not None or target.memories):
            rewrite(op, [InjectVirtualThread()], once=True, inner_first=True)


@dataclass
class _Injection:
    """The rewriting of one virtual loop.

    Attributes:
        different: values and buffers that are not the same for all virtual threads.
    """

    virtual: loop.ForOp
    different: set[SSAValue] = field(default_factory=set[SSAValue])

    def run(self, rewriter: PatternRewriter) -> None:
        virtual = self.virtual
        self.different = {virtual.induction_variable}
        while self._spread(virtual.body.block):
            pass
        for alloc in [op for op in virtual.walk() if isinstance(op, loop.AllocOp)]:
            if alloc.result in self.different:
                self._expand(alloc)
        rewriter.replace(virtual, self._sunk(list(virtual.body.block.ops)), [])

    # What differs.

    def _spread(self, block: Block, inside: bool = False) -> bool:
        """Learn more of what differs; whether there was more.

        Args:
            inside: whether the block runs for some virtual threads only.
        """
        changed = False
        for op in block.ops:
            differs = inside or not self.different.isdisjoint(op.operands)
            match op:
                case loop.ForOp():
                    changed |= self._spread(op.body.block, inside)
                case loop.GuardOp():
                    changed |= self._spread(op.body.block, differs)
                case loop.StoreOp():
                    changed |= differs and self._add(op.memref)
                case loop.IntrinOp():
                    for output in op.outputs:
                        changed |= differs and self._add(output)
                case _ if differs:
                    for result in op.results:
                        changed |= self._add(result)
                case _:
                    pass
        return changed

    def _add(self, value: SSAValue) -> bool:
        alloc = value.owner
        if isinstance(value.type, MemRefType) and not (
            isinstance(alloc, loop.AllocOp) and self.virtual.is_ancestor(alloc)
        ):
            return False
        if isinstance(alloc, loop.AllocOp) and not (
            alloc.scope.data.is_private or alloc.scope.data.is_placed
        ):
            return False
        new = value not in self.different
        self.different.add(value)
        return new

    def _differs(self, op: Operation) -> bool:
        """Whether an op, or one inside, is not the same for all virtual threads."""
        return any(not self.different.isdisjoint(inner.operands) for inner in op.walk())

    def _expand(self, alloc: loop.AllocOp) -> None:
        """Give each virtual thread a buffer of its own, as a part of one."""
        variable = self.virtual.induction_variable
        calls = dict.fromkeys(use.operation for use in alloc.result.uses)
        accesses = accesses_of(alloc) or []
        for op in accesses:
            add_dimension(op, AffineDimExpr(0), [variable])
        for op in calls:
            if isinstance(op, loop.IntrinOp):
                add_tile_dimension(op, alloc.result, AffineDimExpr(0), [variable])
        new = reshape(alloc, [self.virtual.trip_count, *buffer_shape(alloc.result)])
        self.different.add(new.result)

    # Where the loop goes.

    def _sunk(self, ops: Sequence[Operation]) -> list[Operation]:
        """Ops with the virtual loop around those that differ."""
        allocs = [op for op in ops if isinstance(op, loop.AllocOp)]
        rest = [op for op in ops if op not in allocs]
        for op in ops:
            op.detach()
        result: list[Operation] = list(allocs)
        leaves: list[Operation] = []
        for position, op in enumerate(rest):
            if not isinstance(op, loop.ForOp | loop.GuardOp):
                leaves.append(op)
                continue
            if self._reach(leaves, op):
                # Values of these statements are used further inside: all stay together.
                return result + self._around(leaves + rest[position:])
            result += self._leaves(leaves)
            leaves = []
            result += self._structured(op)
        return result + self._leaves(leaves)

    def _reach(self, leaves: Sequence[Operation], op: Operation) -> bool:
        made = {result for leaf in leaves for result in leaf.results} & self.different
        return any(not made.isdisjoint(inner.operands) for inner in op.walk())

    def _structured(self, op: loop.ForOp | loop.GuardOp) -> list[Operation]:
        if not self._differs(op):
            return [op]
        if path_to_call(op) is not None:
            return self._around([op])
        passes = (
            op.loop_kind in _PASSED
            if isinstance(op, loop.ForOp)
            else self.different.isdisjoint(op.operands)
        )
        if not passes:
            return self._around([op])
        body = op.body.block
        for inner in self._sunk(list(body.ops)):
            body.add_op(inner)
        return [op]

    def _leaves(self, leaves: Sequence[Operation]) -> list[Operation]:
        """Statements of one block: what they have in common comes first."""
        differ = [op for op in leaves if self._differs(op)]
        alike = [op for op in leaves if op not in differ]
        if not differ:
            return list(leaves)
        first = leaves.index(differ[0])
        late = [op for op in leaves[first:] if op in alike and _has_effect(op)]
        if late:
            return self._around(leaves)
        return [*alike, *self._around(differ)]

    def _around(self, ops: Sequence[Operation]) -> list[Operation]:
        """The virtual loop around ops."""
        block = Block(arg_types=[IndexType()])
        variable = block.args[0]
        old = self.virtual.induction_variable
        variable.name_hint = old.name_hint
        block.add_ops(ops)
        for op in ops:
            for inner in op.walk():
                for position, operand in enumerate(inner.operands):
                    if operand is old:
                        inner.operands[position] = variable
        count = self.virtual.trip_count
        kind = loop.LoopKind.UNROLLED if count <= _MOST_COPIES else loop.LoopKind.SERIAL
        return [loop.ForOp(count, Region(block), kind)]


def _has_effect(op: Operation) -> bool:
    return not (is_side_effect_free(op) or isinstance(op, loop.LoadOp))
