"""Conversion of a function's buffers to arguments.

A walk by hand: functions are changed as a whole.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass

from tcopt.dialects import loop
from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.dialects.size import function_symbols, substitute_type
from tcopt.passes.loop.analysis.calls import calls_by_name
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.ir.rewriting import insert, replace, replace_by
from tcopt.support.machines.alignment import ALIGNMENT

STACK_BYTES = 64 * 1024
"""Maximum size of buffers on a thread's stack."""


def _hoist(function: loop.FuncOp, calls: Sequence[loop.CallOp]) -> None:
    """Make the buffers at a function's top, and large ones in serial loops, arguments."""
    block = function.body.block
    allocs = list(_workspace(block))
    symbols = function_symbols(function)
    types: list[Attribute] = []
    for alloc in allocs:
        (buffer,) = alloc.results
        argument = block.insert_arg(buffer.type, len(block.args) - len(symbols))
        argument.name_hint = buffer.name_hint
        types.append(buffer.type)
        replace_by(alloc, [argument])
    if allocs:
        function.function_type = FunctionType.from_lists(list(block.arg_types), [])
        for call in calls:
            pass_buffers(call, types, symbols)


def _workspace(block: Block, *, least: int = -1) -> Generator[loop.AllocOp]:
    """Yield the buffers of more than `least` bytes that are used by one thread at a time."""
    for op in block.ops:
        if isinstance(op, loop.AllocOp) and op.scope.data == loop.Scope.GLOBAL:
            if memref_bytes(op.result.type) > least:
                yield op
        elif isinstance(op, loop.ForOp) and op.loop_kind is loop.LoopKind.SERIAL:
            yield from _workspace(op.body.block, least=STACK_BYTES)


@dataclass(frozen=True)
class HoistWorkspacePass(ModulePass):
    """Make a function's workspace buffers arguments, which its callers allocate.

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

    These are the global buffers at the top of a function, and those in its serial loops that are
    too large for a stack and would be on the heap. The memory plan then covers them. Sizes stay the
    last arguments. Functions that are never called are not changed.
    """

    name = "hoist-workspace"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calls = calls_by_name(op)
        for function in op.ops:
            if isinstance(function, loop.FuncOp) and function.sym_name.data in calls:
                _hoist(function, calls[function.sym_name.data])


def pass_buffers(
    call: loop.CallOp, types: Sequence[Attribute], symbols: Sequence[Symbol] = ()
) -> None:
    """Let a call pass new buffers of these memref types after its other buffers.

    Args:
        symbols: sizes of the called function, which the types may have.
    """
    extents = () if call.sizes is None else call.sizes.extents
    values = dict(zip((symbol.name for symbol in symbols), extents, strict=False))
    own = [substitute_type(type_, values) for type_ in types]
    buffers = [memref.AllocOp([], [], type_, IntegerAttr(ALIGNMENT, i64)) for type_ in own]
    outermost = _outermost(call)
    for buffer in buffers:
        insert(buffer, outermost)
    operands = [*call.arguments, *(buffer.memref for buffer in buffers)]
    new = loop.CallOp(call.callee.string_value(), operands, call.sizes)
    new.attributes.update(call.attributes)
    replace(call, new)


def _outermost(call: loop.CallOp) -> Operation:
    """Return the op at the top level of the host function that is or contains a call."""
    op: Operation = call
    while (parent := op.parent_op()) is not None and not isinstance(parent, func.FuncOp):
        op = parent
    return op
