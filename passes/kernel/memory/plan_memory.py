"""Memory planning: intermediates in one workspace, weights in one block.

A walk by hand: the plan of a function is applied as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    UnrealizedConversionCastOp,
    i8,
    i64,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from tcopt.dialects.loop import SliceOp, WeightOp
from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.passes.kernel.memory.memory_layout import Request, aligned, live_bytes, place
from tcopt.support.ir.rewriting import erase, insert, replace

_VIEWS = (
    memref.ReinterpretCastOp,
    memref.CastOp,
    memref.SubviewOp,
    memref.ViewOp,
    SliceOp,
    UnrealizedConversionCastOp,
)


@dataclass
class MemoryPlan:
    """Offsets of the buffers of a host function.

    Attributes:
        offsets: offset of each intermediate in the workspace, in bytes.
        workspace: size of the workspace.
        weights: offset and size of each weight in the weight block.
        weights_size: size of the weight block.
        least: maximum bytes of intermediates that are alive at once.
    """

    offsets: dict[Operation, int]
    workspace: int
    weights: dict[str, tuple[int, int]]
    weights_size: int
    least: int

    @property
    def intermediates(self) -> int:
        """Total size of all intermediates in bytes."""
        return sum(memref_bytes(alloc.results[0].type) for alloc in self.offsets)

    def __str__(self) -> str:
        lines = [f"plan-memory: workspace {self.workspace} B, weights {self.weights_size} B"]
        for alloc, offset in self.offsets.items():
            (buffer,) = alloc.results
            lines.append(f"  {offset}: %{buffer.name_hint or 'unnamed'} {buffer.type}")
        lines += [f"  {offset}: @{name}, {size} B" for name, (offset, size) in self.weights.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """Puts every intermediate of @main into one workspace and every weight into one block.

    Intermediates that are alive at the same time never overlap; a buffer lives from the first to
    the last op that uses it or a view of it. Both blocks become trailing arguments of @main, and
    every offset is a multiple of 64 bytes. Called functions are not inspected, as they may be
    declarations.

        func.func @main(%x: memref<8xf32>, %y: memref<8xf32>) {
          %w = loop.weight @fc.weight : memref<8x8xf32>
          %t = memref.alloc() : memref<8xf32>
          func.call @f(%x, %w, %t) ...
          func.call @g(%t, %y) ...
        ->
        func.func @main(%x: memref<8xf32>, %y: memref<8xf32>, %weights: memref<256xi8>,
            %workspace: memref<64xi8>) attributes {
              tcopt.weights = {fc.weight = array<i64: 0, 256>},
              tcopt.memory = {workspace = 64 : i64, intermediates = 32 : i64,
                              lower_bound = 64 : i64}} {
          %c0 = arith.constant 0 : index
          %w = memref.view %weights[%c0][] : memref<256xi8> to memref<8x8xf32>
          %t = memref.view %workspace[%c0][] : memref<64xi8> to memref<8xf32>
          ...

    `tcopt.weights` has the offset and size in bytes of each weight. `tcopt.memory` reports the size
    of the workspace, the sum of all intermediates, and the maximum number of live bytes, which is a
    lower bound of any plan.
    """

    name = "plan-memory"
    host_only: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for host in op.ops:
            if isinstance(host, func.FuncOp) and host.sym_name.data == "main" and host.body.blocks:
                _carry_out(host, plan_memory(host))


def plan_memory(host: func.FuncOp) -> MemoryPlan:
    """Choose the offsets of a host function's buffers. Unused buffers are removed."""
    allocs, requests = _lifetimes(host.body.block)
    workspace, offsets = place(requests)
    weights, weights_size = _pack_weights(host.body.block)
    by_alloc: dict[Operation, int] = dict(zip(allocs, offsets, strict=True))
    return MemoryPlan(by_alloc, workspace, weights, weights_size, live_bytes(requests))


def _carry_out(host: func.FuncOp, plan: MemoryPlan) -> None:
    weights = _argument(host, "weights", plan.weights_size)
    workspace = _argument(host, "workspace", plan.workspace)
    constants: dict[int, SSAValue] = {}
    _place_in(workspace, plan.offsets, constants)
    used = [op for op in host.body.block.ops if isinstance(op, WeightOp)]
    offsets: dict[Operation, int] = {op: plan.weights[op.weight.data][0] for op in used}
    _place_in(weights, offsets, constants)
    host.function_type = FunctionType.from_lists(
        list(host.body.block.arg_types), list(host.function_type.outputs)
    )
    host.attributes["tcopt.weights"] = DictionaryAttr(
        {name: DenseArrayBase.from_list(i64, entry) for name, entry in plan.weights.items()}
    )
    host.attributes["tcopt.memory"] = DictionaryAttr(
        {
            "workspace": IntegerAttr(plan.workspace, i64),
            "intermediates": IntegerAttr(plan.intermediates, i64),
            "lower_bound": IntegerAttr(plan.least, i64),
        }
    )


def _place_in(
    source: SSAValue, offsets: Mapping[Operation, int], constants: dict[int, SSAValue]
) -> None:
    """Make buffers and weights views of a block of memory.

    Args:
        source: the block of memory, an argument of the function.
        offsets: offset of each op's buffer.
        constants: existing offset constants at the start of the function.
    """
    body = source.owner
    assert isinstance(body, Block)
    for op, offset in offsets.items():
        type_ = op.results[0].type
        assert isa(type_, MemRefType) and body.first_op is not None
        if offset not in constants:
            constant = arith.ConstantOp(IntegerAttr(offset, IndexType()))
            constant.location = op.location
            constants[offset] = insert(constant, body.first_op)
        replace(op, memref.ViewOp(source, constants[offset], [], type_))


def _argument(host: func.FuncOp, name: str, size: int) -> SSAValue:
    block = host.body.block
    argument = block.insert_arg(MemRefType(i8, [size]), len(block.args))
    argument.name_hint = name
    return argument


def _lifetimes(block: Block) -> tuple[list[memref.AllocOp], list[Request]]:
    """Return the used buffers and their lifetimes. Deallocations and unused buffers are removed."""
    position = {op: i for i, op in enumerate(block.ops)}
    allocs: list[memref.AllocOp] = []
    requests: list[Request] = []
    for op in tuple(block.ops):
        if not isinstance(op, memref.AllocOp):
            continue
        uses: list[int] = []
        for user in tuple(_users(op.memref)):
            if isinstance(user, memref.DeallocOp):
                erase(user)
            else:
                uses.append(position[_ancestor_in(user, position)])
        if not uses:
            _erase_views(op)
            continue
        allocs.append(op)
        requests.append(Request(aligned(memref_bytes(op.memref.type)), min(uses), max(uses)))
    return allocs, requests


def _pack_weights(block: Block) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the offset and size of each weight, in the order of use."""
    layout: dict[str, tuple[int, int]] = {}
    end = 0
    for op in block.ops:
        if isinstance(op, WeightOp) and op.weight.data not in layout:
            size = memref_bytes(op.result.type)
            layout[op.weight.data] = (end, size)
            end += aligned(size)
    return layout, end


def _users(value: SSAValue) -> Iterator[Operation]:
    """Yield the ops that use a buffer, also through views."""
    for use in tuple(value.uses):
        if isinstance(use.operation, _VIEWS):
            yield from _users(use.operation.results[0])
        else:
            yield use.operation


def _ancestor_in(op: Operation, position: dict[Operation, int]) -> Operation:
    while op not in position:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def _erase_views(op: Operation) -> None:
    for result in op.results:
        for use in tuple(result.uses):
            _erase_views(use.operation)
    erase(op)
