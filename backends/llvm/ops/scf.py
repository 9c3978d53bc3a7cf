"""scf: lowering of loops, branches and switches to basic blocks.

A loop is bottom-tested: the condition of the next iteration is tested at the end of the body. A
guard precedes the loop unless the bounds show that it runs at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, SSAValue

from tcopt.backends.llvm.emit.emitter import FunctionEmitter, Lines
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.stops import check_stop, stop_interval
from tcopt.backends.llvm.emit.types import byte_size, element_of
from tcopt.support.errors import UnsupportedError


def bind(e: FunctionEmitter, value: SSAValue, operand: str) -> None:
    """Bind a block argument or result, memref or not, to an LLVM operand."""
    if value.type.__class__ is MemRefType:
        e.bind_memref(value, operand, byte_size(element_of(value.type)))
    else:
        e.define(value, operand)


def operand(e: FunctionEmitter, value: SSAValue) -> str:
    """Return the LLVM operand that carries a value, memref or not, across a block boundary."""
    return e.base_pointer(value) if value.type.__class__ is MemRefType else e.value(value)


def forward(e: FunctionEmitter, values: Sequence[SSAValue], operands: Sequence[str]) -> None:
    """Bind several values, keeping the properties of forwarded constants."""
    for value, text in zip(values, operands, strict=True):
        bind(e, value, text)


def counted_loop(
    e: FunctionEmitter,
    type: str,
    bounds: tuple[str, str, str],
    carried: Sequence[tuple[str, str]],
    body: Callable[[str, list[str]], list[str]],
    entry: Lines | None = None,
    runs: bool = False,
) -> list[str]:
    """Emit a loop from the lower to the upper bound by step and return its results.

    Args:
        type: LLVM type of the induction variable and bounds.
        bounds: lower bound, upper bound, step.
        carried: type and initial value of each loop-carried value.
        body: emits the body, given the induction variable and the carried values, and returns the
            values for the next iteration.
        entry: where invariant code is emitted; by default before the guard.
        runs: whether the loop is known to run at least once.
    """
    lower, upper, step = bounds
    entry = e.entry_lines() if entry is None else entry
    head, done = e.label("for"), e.label("done")
    before = e.block
    if runs:
        e.write(f"  br label %{head}")
    else:
        guard = e.assign(f"icmp slt {type} {lower}, {upper}")
        e.write(f"  br i1 {guard}, label %{head}, label %{done}")
    e.start_block(head)
    phis = e.entry_lines()
    e.enter_scope(entry)
    induction = e.fresh()
    names = [e.fresh() for _ in carried]
    results = body(induction, names)
    following = e.assign(f"add nsw {type} {induction}, {step}")
    again = e.assign(f"icmp slt {type} {following}, {upper}")
    e.write(f"  br i1 {again}, label %{head}, label %{done}, {e.loop_metadata}")
    latch = e.block
    e.leave_scope()
    phis.append(f"  {induction} = phi {type} [ {lower}, %{before} ], [ {following}, %{latch} ]")
    for name, (kind, initial), result in zip(names, carried, results, strict=True):
        phis.append(f"  {name} = phi {kind} [ {initial}, %{before} ], [ {result}, %{latch} ]")
    e.start_block(done)
    if runs:
        return [
            e.assign(f"phi {kind} [ {result}, %{latch} ]")
            for (kind, _), result in zip(carried, results, strict=True)
        ]
    return [
        e.assign(f"phi {kind} [ {initial}, %{before} ], [ {result}, %{latch} ]")
        for (kind, initial), result in zip(carried, results, strict=True)
    ]


def stoppable_loop(
    e: FunctionEmitter,
    type: str,
    bounds: tuple[str, str, str],
    carried: Sequence[tuple[str, str]],
    body: Callable[[str, list[str]], list[str]],
    interval: int | None,
    runs: bool = False,
) -> list[str]:
    """Emit a `counted_loop` that checks for a stop.

    Args:
        interval: iterations between two checks, as returned by `stop_interval`. If it is more than
            1, the iterations between checks form an inner loop without any overhead per iteration.
    """
    if interval is None:
        return counted_loop(e, type, bounds, carried, body, runs=runs)
    if interval == 1 or type != "i64":

        def iteration(variable: str, values: list[str]) -> list[str]:
            check_stop(e)
            return body(variable, values)

        return counted_loop(e, type, bounds, carried, iteration, runs=runs)
    _, upper, step = bounds
    stride = e.assign(f"mul nsw i64 {step}, {interval}")

    def part(first: str, values: list[str]) -> list[str]:
        check_stop(e)
        limit = e.assign(f"add nsw i64 {first}, {stride}")
        is_last = e.assign(f"icmp slt i64 {upper}, {limit}")
        end = e.assign(f"select i1 {is_last}, i64 {upper}, i64 {limit}")
        initial = [(kind, value) for (kind, _), value in zip(carried, values, strict=True)]
        return counted_loop(e, type, (first, end, step), initial, body, runs=True)

    return counted_loop(e, type, (bounds[0], upper, stride), carried, part, runs=runs)


def trip_count(e: FunctionEmitter, lower: SSAValue, upper: SSAValue, step: SSAValue) -> int | None:
    """Return the trip count of a loop, if all three bounds are constant."""
    low, high, by = (e.constant_index(v) for v in (lower, upper, step))
    if low is None or high is None or by is None:
        return None
    if by <= 0:
        raise UnsupportedError(f"the step of a loop is {by}", hint="use a positive number")
    return max(0, -(-(high - low) // by))


def yielded(e: FunctionEmitter, block: Block) -> list[str]:
    """Return the operands of a block's terminator."""
    terminator = block.last_op
    return [] if terminator is None else [operand(e, v) for v in terminator.operands]


@emits(scf.ForOp)
def emit_for(e: FunctionEmitter, op: scf.ForOp) -> None:
    block = op.body.block
    induction, *arguments = block.args
    lower, upper, step = op.operands[:3]
    initial = [operand(e, v) for v in op.operands[3:]]
    trips = trip_count(e, lower, upper, step)
    if trips == 0:
        forward(e, op.results, initial)
        return
    if trips == 1:
        e.define_index(induction, e.index(lower))
        forward(e, arguments, initial)
        e.emit_block(block)
        forward(e, op.results, yielded(e, block))
        return

    def body(variable: str, values: list[str]) -> list[str]:
        e.define(induction, variable)
        forward(e, arguments, values)
        e.emit_block(block)
        return yielded(e, block)

    results = stoppable_loop(
        e,
        e.type(induction.type),
        (e.value(lower), e.value(upper), e.value(step)),
        [(e.type(a.type), text) for a, text in zip(arguments, initial, strict=True)],
        body,
        stop_interval(e, block, trips),
        runs=trips is not None,
    )
    forward(e, op.results, results)


@emits(scf.IfOp)
def emit_if(e: FunctionEmitter, op: scf.IfOp) -> None:
    condition = e.value(op.cond)
    regions = (op.true_region, op.false_region)
    if condition in ("true", "false"):
        region = regions[condition == "false"]
        if region.blocks:
            e.emit_block(region.block)
            forward(e, op.results, yielded(e, region.block))
        return
    entry = e.entry_lines()
    labels = [e.label("then"), e.label("else"), e.label("endif")]
    has_else = bool(op.false_region.blocks)
    otherwise = labels[1] if has_else else labels[2]
    e.write(f"  br i1 {condition}, label %{labels[0]}, label %{otherwise}")
    incoming: list[tuple[str, list[str]]] = []
    for label, region in zip(labels, regions, strict=False):
        if not region.blocks:
            continue
        e.start_block(label)
        e.enter_scope(entry)
        e.emit_block(region.block)
        values = yielded(e, region.block)
        e.leave_scope()
        incoming.append((e.block, values))
        e.write(f"  br label %{labels[2]}")
    e.start_block(labels[2])
    _join(e, op.results, incoming)


def _join(
    e: FunctionEmitter, results: Sequence[SSAValue], incoming: list[tuple[str, list[str]]]
) -> None:
    """Bind results to phis of the values that the incoming blocks yield."""
    for index, result in enumerate(results):
        edges = ", ".join(f"[ {values[index]}, %{label} ]" for label, values in incoming)
        bind(e, result, e.assign(f"phi {e.type(result.type)} {edges}"))


@emits(scf.WhileOp)
def emit_while(e: FunctionEmitter, op: scf.WhileOp) -> None:
    before, after = op.before_region.block, op.after_region.block
    initial = [operand(e, v) for v in op.arguments]
    entry = e.entry_lines()
    head, body, done = e.label("while"), e.label("do"), e.label("done")
    origin = e.block
    e.write(f"  br label %{head}")
    e.start_block(head)
    phis = e.entry_lines()
    e.enter_scope(entry)
    names = [e.fresh() for _ in before.args]
    forward(e, before.args, names)
    e.emit_block(before)
    condition, *passed = yielded(e, before)
    tested = e.block
    e.write(f"  br i1 {condition}, label %{body}, label %{done}")
    e.start_block(body)
    check_stop(e)
    forward(e, after.args, passed)
    e.emit_block(after)
    back = yielded(e, after)
    latch = e.block
    e.write(f"  br label %{head}, {e.loop_metadata}")
    e.leave_scope()
    for name, argument, first, following in zip(names, before.args, initial, back, strict=True):
        type = e.type(argument.type)
        phis.append(f"  {name} = phi {type} [ {first}, %{origin} ], [ {following}, %{latch} ]")
    e.start_block(done)
    _join(e, op.results, [(tested, passed)])


@emits(scf.IndexSwitchOp)
def emit_index_switch(e: FunctionEmitter, op: scf.IndexSwitchOp) -> None:
    argument = e.value(op.arg)
    entry = e.entry_lines()
    default, done = e.label("default"), e.label("endswitch")
    cases = [(number, e.label("case")) for number in op.cases.iter_values()]
    listed = " ".join(f"{e.index_type} {number}, label %{label}" for number, label in cases)
    e.write(f"  switch {e.index_type} {argument}, label %{default} [ {listed} ]")
    incoming: list[tuple[str, list[str]]] = []
    labels = [label for _, label in cases]
    for label, region in zip(
        [*labels, default], [*op.case_regions, op.default_region], strict=True
    ):
        e.start_block(label)
        e.enter_scope(entry)
        e.emit_block(region.block)
        values = yielded(e, region.block)
        e.leave_scope()
        incoming.append((e.block, values))
        e.write(f"  br label %{done}")
    e.start_block(done)
    _join(e, op.results, incoming)


@emits(scf.ExecuteRegionOp)
def emit_execute_region(e: FunctionEmitter, op: scf.ExecuteRegionOp) -> None:
    if len(op.region.blocks) != 1:
        raise UnsupportedError("regions with several blocks have no emit rule", op=op)
    e.emit_block(op.region.block)
    forward(e, op.results, yielded(e, op.region.block))
