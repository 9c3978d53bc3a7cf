"""Instrumentation of kernel calls with clocks.

A walk by hand: the plan of a function is applied as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalization_patterns.utils import const_evaluate_operand
from xdsl.utils.hints import isa

from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.dialects.origins import call_origin, number_attribute, origin_attribute
from tcopt.dialects.profile import ClockOp
from tcopt.dialects.size import BYTES, TRIP, DimsAttr
from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.locations import set_location

PROFILE = "tcopt.profile"
"""The attribute of @main that describes each timed call."""

PARALLEL_ATTRIBUTE = "tcopt.parallel"
"""Attribute on the declaration of a kernel that has a parallel loop."""


@dataclass(frozen=True)
class InstrumentPass(ModulePass):
    """Makes @main record when each kernel call starts and ends.

        func.func @main(%x: memref<8xf32>, ..., %workspace: memref<64xi8>) {
          func.call @f(%x, %t) ...
        ->
        func.func @main(%x: memref<8xf32>, ..., %workspace: memref<64xi8>,
            %times: memref<2xi64>) attributes {
              tcopt.profile = [{kernel = "f", nodes = ["Conv_0"], ops = ["conv"],
                                results = ["8xf32"], work = 64 : i64, bytes = 64 : i64,
                                parallel = false, turns = 1 : i64}]} {
          %0 = profile.clock : i64
          memref.store %0, %times[%c0] : memref<2xi64>
          func.call @f(%x, %t) ...
          %1 = profile.clock : i64
          memref.store %1, %times[%c1] : memref<2xi64>

    The times of call i are elements 2i and 2i + 1 of the last argument, in nanoseconds. A call in a
    time loop starts with the loop, and its recorded duration is the sum over all iterations.
    Kernels are not changed. `bytes` is the total size of the call's buffers, `parallel` whether the
    kernel has a parallel loop, `turns` the number of calls per run. The pass runs after
    `plan-memory`.
    """

    name = "instrument"
    host_only: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.ops if isinstance(f, func.FuncOp)}
        main = functions.get("main")
        if main is not None and main.body.blocks:
            _instrument(main, functions)


def _instrument(main: func.FuncOp, functions: Mapping[str, func.FuncOp]) -> None:
    block = main.body.block
    calls = [op for op in main.walk() if isinstance(op, func.CallOp)]
    times = block.insert_arg(MemRefType(i64, [2 * len(calls)]), len(block.args))
    times.name_hint = "times"
    for number, call in enumerate(calls):
        _time(call, times, number, block)
    main.function_type = FunctionType.from_lists(
        list(block.arg_types), list(main.function_type.outputs)
    )
    main.attributes[PROFILE] = ArrayAttr(
        _facts(call, functions.get(call.callee.string_value())) for call in calls
    )


def _time(call: func.CallOp, times: SSAValue, number: int, block: Block) -> None:
    """Record when a call starts and ends; for a call in a loop, the sum of all iterations."""
    outer = _outermost(call, block)
    begin, end = 2 * number, 2 * number + 1
    before, after = _stamp(times, begin), _stamp(times, end)
    if outer is not call:
        before, after = [*before, *after], []
    set_location((*before, *after), call.location)
    block.insert_ops_before(before, outer)
    block.insert_ops_after(after, outer)
    if outer is not call:
        _add_time(times, end, call)


def _stamp(times: SSAValue, slot: int) -> list[Operation]:
    clock = ClockOp()
    place = arith.ConstantOp(IntegerAttr(slot, IndexType()))
    return [clock, place, memref.StoreOp.get(clock.result, times, [place.result])]


def _outermost(call: func.CallOp, block: Block) -> Operation:
    """Return the op in a block that is the call, or the loop that contains it."""
    op: Operation = call
    while op.parent is not block:
        outer = op.parent_op()
        assert outer is not None
        op = outer
    return op


def _add_time(times: SSAValue, slot: int, call: func.CallOp) -> None:
    """Add the duration of a call to a slot."""
    start, stop = ClockOp(), ClockOp()
    place = arith.ConstantOp(IntegerAttr(slot, IndexType()))
    before = memref.LoadOp.get(times, [place.result])
    length = arith.SubiOp(stop.result, start.result)
    total = arith.AddiOp(before.results[0], length.result)
    store = memref.StoreOp.get(total.result, times, [place.result])
    after = [stop, place, before, length, total, store]
    set_location((start, *after), call.location)
    assert call.parent is not None
    call.parent.insert_op_before(start, call)
    call.parent.insert_ops_after(after, call)


def _facts(call: func.CallOp, kernel: func.FuncOp | None) -> DictionaryAttr:
    origin = call_origin(call)
    kept = call.attributes.get(BYTES)
    size: Attribute = kept or IntegerAttr(
        sum(memref_bytes(v.type) for v in call.operands if isa(v.type, MemRefType)), i64
    )
    parallel = kernel is not None and _is_parallel(kernel)
    turns = _turns(call)
    return DictionaryAttr(
        {
            "kernel": StringAttr(call.callee.string_value()),
            **origin_attribute(origin).data,
            "bytes": size,
            "parallel": BoolAttr.from_bool(parallel),
            "turns": number_attribute(turns),
        }
    )


def _turns(call: func.CallOp) -> Extent:
    """Return the trip count of the loops around a call; loops with variable bounds count as 1."""
    turns: Extent = 1
    op = call.parent_op()
    while op is not None:
        if isinstance(trip := op.attributes.get(TRIP), DimsAttr):
            turns *= trip.extents[0]
        elif isinstance(op, scf.ForOp):
            lower, upper, step = (const_evaluate_operand(v) for v in (op.lb, op.ub, op.step))
            if lower is not None and upper is not None and step:
                turns *= max(0, -((lower - upper) // step))
        op = op.parent_op()
    return turns


def _is_parallel(kernel: func.FuncOp) -> bool:
    return PARALLEL_ATTRIBUTE in kernel.attributes or any(
        isinstance(op, scf.ParallelOp) for op in kernel.walk()
    )
