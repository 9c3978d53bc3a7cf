"""Interleaving of virtual threads in one thread."""

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
from tcopt.support.ir.rewriting import rewrite

_MOST_COPIES = 32
"""Maximum number of virtual threads that are unrolled."""

_PASSED = (loop.LoopKind.SERIAL, loop.LoopKind.UNROLLED, loop.LoopKind.THREAD)


class InjectVirtualThread(RewritePattern):
    """Move an innermost loop over virtual threads inwards, to the ops that differ between them.

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
    """Interleave virtual threads in the thread that runs them all.

    The loop over virtual threads moves inwards, to the statements that differ between them. Work
    that is the same for all, such as filling shared memory, is done once; each virtual thread has
    separate registers.

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

    On an accelerator, each virtual thread also has a separate part of the memories if the data
    differs. Loops around a single intrinsic call remain whole, as they become those of an
    instruction. The instructions of the virtual threads alternate in one stream, so that those of
    one thread execute while those of another wait.

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

    The pass runs after `lower-blocks`. Modules for other targets are not changed.
    """

    name = "inject-virtual-threads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        if target is not None and (target.threads is not None or target.memories):
            rewrite(op, [InjectVirtualThread()], once=True, inner_first=True)


@dataclass
class _Injection:
    """Rewriting of one virtual-thread loop.

    Attributes:
        different: values and buffers that differ between virtual threads.
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

    # Analysis

    def _spread(self, block: Block, inside: bool = False) -> bool:
        """Find more values that differ; return whether any were found.

        Args:
            inside: whether the block runs only for some virtual threads.
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
        """Whether an op, or an op in its regions, differs between virtual threads."""
        return any(not self.different.isdisjoint(inner.operands) for inner in op.walk())

    def _expand(self, alloc: loop.AllocOp) -> None:
        """Expand a buffer by a dimension, to separate the parts of the virtual threads."""
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

    # Placement of the loop

    def _sunk(self, ops: Sequence[Operation]) -> list[Operation]:
        """Return the ops, with the virtual-thread loop around those that differ."""
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
                # Values of these statements are used in the op's regions: all must stay together.
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
        """Return the statements of one block with the common ones first."""
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
        """Wrap ops in the virtual-thread loop."""
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
