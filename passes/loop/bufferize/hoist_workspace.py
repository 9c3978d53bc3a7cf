"""The pass `hoist-workspace`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.calls import calls_by_name
from tcopt.support.alignment import ALIGNMENT
from tcopt.support.rewriting import erase


@dataclass(frozen=True)
class HoistWorkspacePass(ModulePass):
    """Makes the global buffers at the top of a function arguments, given by its callers, so
    that the memory plan covers them.

        loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
          %t = loop.alloc global : memref<8xf32>
          ...
        func.func @main(...) { loop.call @f(%x, %y) ... }
        ->
        loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>, %t: memref<8xf32>) {
          ...
        func.func @main(...) {
          %t = memref.alloc() : memref<8xf32>
          loop.call @f(%x, %y, %t) ... }

    Functions that nothing calls are left alone.
    """

    name = "hoist-workspace"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calls = calls_by_name(op)
        for function in op.ops:
            if isinstance(function, loop.FuncOp) and function.sym_name.data in calls:
                _hoist(function, calls[function.sym_name.data])


def _hoist(function: loop.FuncOp, calls: list[loop.CallOp]) -> None:
    block = function.body.block
    allocs = [
        op
        for op in block.ops
        if isinstance(op, loop.AllocOp) and op.scope.data == loop.Scope.GLOBAL
    ]
    if not allocs:
        return
    for alloc in allocs:
        argument = block.insert_arg(alloc.result.type, len(block.args))
        argument.name_hint = alloc.result.name_hint
        alloc.result.replace_all_uses_with(argument)
        erase(alloc)
    function.function_type = FunctionType.from_lists(list(block.arg_types), [])
    new_types = block.arg_types[-len(allocs) :]
    for call in calls:
        pass_buffers(call, new_types)


def pass_buffers(call: loop.CallOp, types: Sequence[Attribute]) -> None:
    """Let a call pass new buffers of these memref types after its other arguments."""
    buffers = [memref.AllocOp([], [], type_, IntegerAttr(ALIGNMENT, i64)) for type_ in types]
    Rewriter.insert_op(buffers, InsertPoint.before(_outermost(call)))
    operands = [*call.arguments, *(buffer.memref for buffer in buffers)]
    new = loop.CallOp(call.callee.string_value(), operands)
    new.attributes.update(call.attributes)
    new.location = call.location
    Rewriter.replace_op(call, new)


def _outermost(call: loop.CallOp) -> Operation:
    """The op of the host function's own block that holds a call: a loop over time, or it."""
    op: Operation = call
    while (parent := op.parent_op()) is not None and not isinstance(parent, func.FuncOp):
        op = parent
    return op
