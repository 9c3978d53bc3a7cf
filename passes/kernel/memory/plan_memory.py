"""The pass `plan-memory`."""

from __future__ import annotations

from collections.abc import Iterator
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
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.hints import isa

from tcopt.dialects.loop import SliceOp, WeightOp
from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.passes.kernel.memory.memory_layout import Request, aligned, live_bytes, place

_VIEWS = (
    memref.ReinterpretCastOp,
    memref.CastOp,
    memref.SubviewOp,
    memref.ViewOp,
    SliceOp,
    UnrealizedConversionCastOp,
)


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """Puts every intermediate of @main into one workspace and every weight into one block.

    Intermediates that are alive at the same time never overlap; a buffer lives from the
    first to the last op that uses it or a view of it. Both blocks become trailing arguments
    of @main, and every offset is a multiple of 64 bytes. Of the functions that @main calls
    only the calls are looked at, as they may be declarations.

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

    `tcopt.weights` gives the offset and size in bytes of each weight. `tcopt.memory` reports
    the size of the workspace, the sum of all intermediates, and the most bytes that are alive
    at once, which no plan can do without.
    """

    name = "plan-memory"
    host_only: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for host in op.ops:
            if isinstance(host, func.FuncOp) and host.sym_name.data == "main" and host.body.blocks:
                _Plan(host).run()


class _Plan:
    """The plan of one host function."""

    def __init__(self, host: func.FuncOp):
        self.host = host
        self.block = host.body.block
        self.constants: dict[int, SSAValue] = {}

    def run(self) -> None:
        allocs, requests = self._lifetimes()
        workspace, offsets = place(requests)
        layout, weights_size = self._pack_weights()
        weights = self._argument("weights", weights_size)
        buffer = self._argument("workspace", workspace)
        for alloc, offset in zip(allocs, offsets, strict=True):
            self._replace_by_view(alloc, alloc.memref, buffer, offset)
        for op in tuple(self.block.ops):
            if isinstance(op, WeightOp):
                self._replace_by_view(op, op.result, weights, layout[op.weight.data][0])
        self.host.function_type = FunctionType.from_lists(
            list(self.block.arg_types), list(self.host.function_type.outputs)
        )
        self.host.attributes["tcopt.weights"] = DictionaryAttr(
            {name: DenseArrayBase.from_list(i64, entry) for name, entry in layout.items()}
        )
        self.host.attributes["tcopt.memory"] = DictionaryAttr(
            {
                "workspace": IntegerAttr(workspace, i64),
                "intermediates": IntegerAttr(sum(memref_bytes(a.memref.type) for a in allocs), i64),
                "lower_bound": IntegerAttr(live_bytes(requests), i64),
            }
        )

    def _lifetimes(self) -> tuple[list[memref.AllocOp], list[Request]]:
        """The buffers that are used, and when. Deallocations and unused buffers go away."""
        position = {op: i for i, op in enumerate(self.block.ops)}
        allocs: list[memref.AllocOp] = []
        requests: list[Request] = []
        for op in tuple(self.block.ops):
            if not isinstance(op, memref.AllocOp):
                continue
            uses: list[int] = []
            for user in tuple(_users(op.memref)):
                if isinstance(user, memref.DeallocOp):
                    Rewriter.erase_op(user)
                else:
                    uses.append(position[_ancestor_in(user, position)])
            if not uses:
                _erase_views(op)
                continue
            allocs.append(op)
            requests.append(Request(aligned(memref_bytes(op.memref.type)), min(uses), max(uses)))
        return allocs, requests

    def _pack_weights(self) -> tuple[dict[str, tuple[int, int]], int]:
        """Offset and size of each weight, in the order of use."""
        layout: dict[str, tuple[int, int]] = {}
        end = 0
        for op in self.block.ops:
            if isinstance(op, WeightOp) and op.weight.data not in layout:
                size = memref_bytes(op.result.type)
                layout[op.weight.data] = (end, size)
                end += aligned(size)
        return layout, end

    def _argument(self, name: str, size: int) -> SSAValue:
        argument = self.block.insert_arg(MemRefType(i8, [size]), len(self.block.args))
        argument.name_hint = name
        return argument

    def _replace_by_view(
        self, op: Operation, value: SSAValue, source: SSAValue, offset: int
    ) -> None:
        type_ = value.type
        assert isa(type_, MemRefType)
        view = memref.ViewOp(source, self._constant(offset), [], type_)
        view.result.name_hint = value.name_hint
        Rewriter.replace_op(op, view)

    def _constant(self, value: int) -> SSAValue:
        found = self.constants.get(value)
        if found is None:
            op = arith.ConstantOp(IntegerAttr(value, IndexType()))
            first = self.block.first_op
            assert first is not None
            Rewriter.insert_op(op, InsertPoint.before(first))
            found = self.constants[value] = op.result
        return found


def _users(value: SSAValue) -> Iterator[Operation]:
    """The ops that use a buffer, through any views of it."""
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
    Rewriter.erase_op(op)
