"""scf.parallel: threads that claim ranges of the iteration space.

For a loop in function `f`, two functions are emitted:

- `f.body<k>(captured..., begin, end)` runs the iterations [begin, end) of the flattened space, in
  row-major order;
- `f.task<k>(ctx, begin, end)` does the same with the captured values loaded from `ctx`.

The loop itself fills `ctx` and calls `tcopt_parallel`, the thread pool of
`tcopt.backends.llvm.pool`; if there is only one thread, or the loop is smaller than one range, it
calls the body directly. A range has at least `grain` iterations: the integer attribute of that
name, or by default a few microseconds of estimated work. A nested parallel loop runs serially.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.linear import LinearAddress
from tcopt.backends.llvm.emit.literals import Literal, literal
from tcopt.backends.llvm.emit.outline import BodyEmitter
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.stops import check_stop, stop_interval
from tcopt.backends.llvm.emit.types import I64
from tcopt.backends.llvm.emit.work import estimated_work
from tcopt.backends.llvm.ops.scf import stoppable_loop, trip_count
from tcopt.backends.llvm.pool.text import PARALLEL_SYMBOL, THREADS_VARIABLE
from tcopt.support.errors import UnsupportedError

_RANGE_WORK = 4096
"""Estimated ops in the smallest range worth distributing, a few microseconds."""


@emits(scf.ParallelOp)
def emit_parallel(e: FunctionEmitter, op: scf.ParallelOp) -> None:
    if op.initVals:
        raise UnsupportedError("parallel loops with reductions have no LLVM form", op=op)
    trips = [
        trip_count(e, *bounds) for bounds in zip(op.lowerBound, op.upperBound, op.step, strict=True)
    ]
    if 0 in trips:
        return
    if e.outer is not None or all(trip == 1 for trip in trips):
        _emit_serially(e, op, trips, 0)
        return
    extents = [_extent(e, op, d, trip) for d, trip in enumerate(trips)]
    total = _product(e, extents)
    body, task = _emit_functions(e, op, extents)
    grain = _grain(op)
    arguments = [f"{c.type} {c.outer}" for c in body.captures.values()]
    run = f"  call void @{body.name}({', '.join([*arguments, 'i64 0', f'i64 {total}'])})"
    known = _known(total)
    if known is not None and known <= grain:
        e.write(run)
        return
    e.module.globals[THREADS_VARIABLE] = f"@{THREADS_VARIABLE} = external global i32"
    threads = e.assign(f"load i32, ptr @{THREADS_VARIABLE}")
    many = e.assign(f"icmp ne i32 {threads}, 1")
    if known is None:
        enough = e.assign(f"icmp sgt i64 {total}, {grain}")
        many = e.assign(f"and i1 {many}, {enough}")
    fork, serial, done = e.label("fork"), e.label("serial"), e.label("join")
    e.write(f"  br i1 {many}, label %{fork}, label %{serial}")
    e.start_block(fork)
    _fork(e, body, task, total, threads, grain)
    e.write(f"  br label %{done}")
    e.start_block(serial)
    e.write(run)
    e.write(f"  br label %{done}")
    e.start_block(done)
    check_stop(e)


def _emit_serially(
    e: FunctionEmitter, op: scf.ParallelOp, trips: list[int | None], dimension: int
) -> None:
    """Emit nested serial loops for a parallel loop."""
    if dimension == len(trips):
        e.emit_block(op.body.block)
        return
    induction = op.body.block.args[dimension]
    bounds = op.lowerBound[dimension], op.upperBound[dimension], op.step[dimension]
    if trips[dimension] == 1:
        e.define_index(induction, e.index(bounds[0]))
        _emit_serially(e, op, trips, dimension + 1)
        return

    def body(variable: str, _: list[str]) -> list[str]:
        e.define(induction, variable)
        _emit_serially(e, op, trips, dimension + 1)
        return []

    lower, upper, step = (e.value(bound) for bound in bounds)
    interval = stop_interval(e, op.body.block, trips[dimension])
    runs = trips[dimension] is not None
    stoppable_loop(e, "i64", (lower, upper, step), [], body, interval, runs=runs)


def _extent(e: FunctionEmitter, op: scf.ParallelOp, dimension: int, trip: int | None) -> str:
    """Return the number of iterations of one dimension."""
    if trip is not None:
        return literal(I64, trip)
    low, high = e.index(op.lowerBound[dimension]), e.index(op.upperBound[dimension])
    span = e.materialize(high.plus(low.scaled(-1)))
    step = e.value(op.step[dimension])
    rounded = e.assign(f"add i64 {span}, {step}")
    less = e.assign(f"sub i64 {rounded}, 1")
    count = e.assign(f"sdiv i64 {less}, {step}")
    return e.unary_intrinsic("smax", I64, count, literal(I64, 0))


def _known(extent: str) -> int | None:
    """Return the value of an i64 operand if it is a constant."""
    number = extent.number if isinstance(extent, Literal) else None
    return None if number is None else int(number)


def _product(e: FunctionEmitter, extents: list[str]) -> str:
    total: str = literal(I64, prod(_known(extent) or 1 for extent in extents))
    for extent in extents:
        if _known(extent) is None:
            total = e.assign(f"mul i64 {total}, {extent}")
    return total


def _emit_functions(
    e: FunctionEmitter, op: scf.ParallelOp, extents: list[str]
) -> tuple[BodyEmitter, str]:
    """Emit the body and task functions; return the body's emitter and the name of the task."""
    number = e.parallel_count
    e.parallel_count += 1
    body = BodyEmitter(e, f"{e.name}.body{number}")
    body.depths |= {"%begin": 0, "%end": 0}
    sizes = [body.capture_operand(extent) for extent in extents]

    known = [number for number in map(_known, extents) if number is not None]
    total = prod(known) if len(known) == len(extents) else None
    interval = stop_interval(body, op.body.block, total)

    def iteration(variable: str, _: list[str]) -> list[str]:
        for dimension, position in enumerate(_coordinates(body, variable, sizes)):
            lower = body.index(op.lowerBound[dimension])
            form = lower.plus(_scaled(body, position, op.step[dimension]))
            body.define_index(op.body.block.args[dimension], form)
        body.emit_block(op.body.block)
        return []

    check_stop(body)
    stoppable_loop(body, "i64", ("%begin", "%end", "1"), [], iteration, interval)
    body.write("  ret void")
    parameters = [c.parameter for c in body.captures.values()] + ["i64 %begin", "i64 %end"]
    e.module.functions.append(
        f"define internal void @{body.name}({', '.join(parameters)}) nounwind {{\n"
        f"{body.body_text()}\n}}"
    )
    task = f"{e.name}.task{number}"
    e.module.functions.append(_task_function(body, task))
    return body, task


def _scaled(e: FunctionEmitter, position: str, step: SSAValue) -> LinearAddress:
    known = e.constant_index(step)
    if known is not None:
        return LinearAddress.symbol(position).scaled(known)
    return LinearAddress.symbol(e.assign(f"mul nsw i64 {position}, {e.value(step)}"))


def _coordinates(e: FunctionEmitter, flat: str, sizes: list[str]) -> list[str]:
    """Split a flat iteration number into one index per dimension."""
    positions: list[str] = []
    for size in reversed(sizes[1:]):
        positions.append(e.assign_opaque(f"urem i64 {flat}, {size}"))
        flat = e.assign_opaque(f"udiv i64 {flat}, {size}")
    return [flat, *reversed(positions)]


def _context_type(body: BodyEmitter) -> str:
    """Return the type of the context, a struct of the captured values."""
    return f"{{ {', '.join(c.type for c in body.captures.values())} }}"


def _task_function(body: BodyEmitter, name: str) -> str:
    """Return the function `void task(void *ctx, int64_t begin, int64_t end)` for the pool."""
    context = _context_type(body)
    lines: list[str] = []
    arguments: list[str] = []
    for number, c in enumerate(body.captures.values()):
        lines.append(
            f"  {c.name}.p = getelementptr inbounds {context}, ptr %ctx, i32 0, i32 {number}"
        )
        lines.append(f"  {c.name} = load {c.type}, ptr {c.name}.p")
        arguments.append(f"{c.type} {c.name}")
    setup = "\n".join(lines)
    listed = ", ".join([*arguments, "i64 %begin", "i64 %end"])
    return f"""define internal void @{name}(ptr %ctx, i64 %begin, i64 %end) nounwind {{
entry:
{setup}
  call void @{body.name}({listed})
  ret void
}}"""


def _fork(
    e: FunctionEmitter, body: BodyEmitter, task: str, total: str, threads: str, grain: int
) -> None:
    """Fill the context and run the threads."""
    context = _context_type(body)
    place = e.alloca(context, 64)
    for number, c in enumerate(body.captures.values()):
        slot = e.assign(f"getelementptr inbounds {context}, ptr {place}, i32 0, i32 {number}")
        e.write(f"  store {c.type} {c.outer}, ptr {slot}")
    e.declare(PARALLEL_SYMBOL, "void", ["ptr", "ptr", "i64", "i64", "i32"])
    listed = f"ptr @{task}, ptr {place}, i64 {total}, i64 {grain}, i32 {threads}"
    e.write(f"  call void @{PARALLEL_SYMBOL}({listed})")


def _grain(op: scf.ParallelOp) -> int:
    attr = op.attributes.get("grain")
    if isinstance(attr, IntegerAttr):
        return max(1, attr.value.data)
    return max(1, _RANGE_WORK // max(1, estimated_work(op.body.block.ops)))
