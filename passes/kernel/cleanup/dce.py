"""dce: what nobody uses is removed."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.passes.kernel.cleanup.effects import effects_of, is_removable
from tcopt.support.rewriting import erase


@dataclass(frozen=True)
class DcePass(ModulePass):
    """Removes ops without effects whose results are unused, stores to buffers that are never
    read, and loop-carried values that reach nothing.

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
        for block in op.body.blocks:
            while _sweep(block):
                pass


def _sweep(block: Block) -> bool:
    """Remove what is dead in a block, backwards; whether another sweep may find more."""
    again = False
    for op in tuple(reversed(block.ops)):
        for region in op.regions:
            for inner in region.blocks:
                again |= _sweep(inner)
        if all(result.first_use is None for result in op.results) and is_removable(op):
            if op.regions or op.results or effects_of(op).none:
                erase(op)
        elif isinstance(op, scf.ForOp) and op.iter_args:
            again |= _drop_dead_arguments(op)
        elif isinstance(op, memref.AllocaOp | memref.AllocOp):
            again |= _drop_unread_buffer(op)
    return again


def _drop_dead_arguments(op: scf.ForOp) -> bool:
    """Remove carried values that are unused outside, and inside used only to be carried."""
    block = op.body.block
    terminator = block.last_op
    assert isinstance(terminator, scf.YieldOp)
    arguments = block.args[1:]
    dead = [
        index
        for index, argument in enumerate(arguments)
        if op.results[index].first_use is None and _only_carried(argument, terminator, index)
    ]
    if not dead:
        return False
    kept = [index for index in range(len(arguments)) if index not in set(dead)]
    terminator.operands = [terminator.operands[index] for index in kept]
    for index in reversed(dead):
        block.erase_arg(arguments[index])
    initial = [op.iter_args[index] for index in kept]
    new = scf.ForOp(op.lb, op.ub, op.step, initial, op.detach_region(op.body))
    new.attributes |= op.attributes
    new.location = op.location
    parent = op.parent
    assert parent is not None
    parent.insert_op_before(new, op)
    for index, result in zip(kept, new.results, strict=True):
        result.name_hint = op.results[index].name_hint
        op.results[index].replace_all_uses_with(result)
    erase(op)
    return True


def _only_carried(argument: SSAValue, terminator: scf.YieldOp, index: int) -> bool:
    """Whether an argument is used by nothing, or only yielded to itself."""
    return all(use.operation is terminator and use.index == index for use in tuple(argument.uses))


def _drop_unread_buffer(op: memref.AllocaOp | memref.AllocOp) -> bool:
    """Remove a buffer that is only ever written, with its writes."""
    uses = tuple(op.memref.uses)
    if not all(_is_pure_write(use.operation, use.index, op.memref) for use in uses):
        return False
    for use in uses:
        erase(use.operation)
    erase(op)
    return True


def _is_pure_write(op: Operation, index: int, buffer: SSAValue) -> bool:
    """Whether an op does nothing but write to `buffer`, its operand number `index`."""
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
