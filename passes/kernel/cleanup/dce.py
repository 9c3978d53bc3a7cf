"""Dead code elimination."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.passes.kernel.cleanup.effects import effects_of, is_removable
from tcopt.support.ir.rewriting import rewrite


class EraseUnused(RewritePattern):
    """Remove an op without effects whose results are unused.

    %0 = arith.addf %a, %b : f32
    ->
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if any(result.first_use is not None for result in op.results) or not is_removable(op):
            return
        if op.regions or op.results or effects_of(op).none:
            rewriter.erase(op)


class DropCarriedValues(RewritePattern):
    """Remove values carried by a loop that are unused outside, and inside used only to be carried.

    %r:2 = scf.for ... iter_args(%x = %p, %dead = %q) -> (f32, f32) { ... }
    ->
    %r = scf.for ... iter_args(%x = %p) -> (f32) { ... }
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        block = op.body.block
        terminator = block.last_op
        if not isinstance(terminator, scf.YieldOp):
            return
        arguments = block.args[1:]
        dead = [
            index
            for index, argument in enumerate(arguments)
            if op.results[index].first_use is None and _only_carried(argument, terminator, index)
        ]
        if not dead:
            return
        kept = [index for index in range(len(arguments)) if index not in set(dead)]
        yielded = [terminator.operands[index] for index in dead]
        terminator.operands = [terminator.operands[index] for index in kept]
        for value in yielded:
            if isinstance(value.owner, Operation):
                rewriter.notify_op_modified(value.owner)
        for index in reversed(dead):
            block.erase_arg(arguments[index])
        initial = [op.iter_args[index] for index in kept]
        new = scf.ForOp(op.lb, op.ub, op.step, initial, op.detach_region(op.body))
        new.attributes |= op.attributes
        rewriter.insert(new)
        for index, result in zip(kept, new.results, strict=True):
            result.name_hint = op.results[index].name_hint
            rewriter.replace_all_uses_with(op.results[index], result)
        rewriter.erase(op)


class EraseUnreadBuffer(RewritePattern):
    """Remove a buffer that is only ever written, with its writes.

    %t = memref.alloca() : memref<8xf32>
    memref.store %a, %t[%i] : memref<8xf32>
    ->
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: memref.AllocaOp | memref.AllocOp, rewriter: PatternRewriter
    ) -> None:
        uses = tuple(op.memref.uses)
        if not all(_is_pure_write(use.operation, use.index, op.memref) for use in uses):
            return
        for use in uses:
            rewriter.erase(use.operation)
        rewriter.erase(op)


@dataclass(frozen=True)
class DcePass(ModulePass):
    """Removes unused ops without effects, stores to unread buffers, and unused loop-carried values.

    ```mlir
    %0 = arith.addf %a, %b : f32
    %r:2 = scf.for ... iter_args(%x = %p, %dead = %q) -> (f32, f32) { ... }
    ```
    becomes, with `%0`, `%dead` and `%r#1` unused,
    ```mlir
    %r = scf.for ... iter_args(%x = %p) -> (f32) { ... }
    ```
    """

    name = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [EraseUnused(), DropCarriedValues(), EraseUnreadBuffer()])


def _only_carried(argument: SSAValue, terminator: scf.YieldOp, index: int) -> bool:
    """Whether an argument is unused, or only yielded to itself."""
    return all(use.operation is terminator and use.index == index for use in tuple(argument.uses))


def _is_pure_write(op: Operation, index: int, buffer: SSAValue) -> bool:
    """Whether the only effect of an op is to write to `buffer`, its operand number `index`."""
    if op.results or op.regions:
        return False
    effects = effects_of(op)
    if isinstance(op, memref.DeallocOp):
        return True
    if not effects.writes or effects.reads or effects.allocates:
        return False
    return all(operand is not buffer for i, operand in enumerate(op.operands) if i != index) and (
        not isinstance(op, memref.StoreOp) or index == 1
    )
