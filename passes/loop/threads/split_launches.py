"""Splitting of GPU functions into one function per launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from tcopt.dialects import loop
from tcopt.dialects.size import (
    DimsAttr,
    function_symbols,
    set_function_symbols,
    size_arguments,
    symbols_in,
)
from tcopt.dialects.target import thread_blocks_of
from tcopt.dialects.te.names import symbols_of, unique_name
from tcopt.passes.loop.analysis.calls import calls_by_name
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.locations import is_known


@dataclass
class SplitLaunch(RewritePattern):
    """Make each launch of a function a separate function, and update the calls.

        loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>, %t: memref<8xf32>) {
          loop.for %i = 0 to 8 thread blockIdx.x { ... writes %t }
          loop.for %i = 0 to 8 thread blockIdx.x { ... reads %t, writes %y }
        }
        loop.call @f(%x, %y, %t)
        ->
        loop.func @f_0(%x: memref<8xf32>, %t: memref<8xf32>) { ... }
        loop.func @f_1(%y: memref<8xf32>, %t: memref<8xf32>) { ... }
        loop.call @f_0(%x, %t)
        loop.call @f_1(%y, %t)

    Attributes:
        calls: calls of each function by name.
        names: names of the module's functions; names of new functions are added.
    """

    calls: Mapping[str, Sequence[loop.CallOp]]
    names: set[str]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.FuncOp, rewriter: PatternRewriter) -> None:
        launches = _launches(op)
        if len(launches) < 2:
            return
        parts: list[tuple[str, list[int], list[int]]] = []
        for number, launch in enumerate(launches):
            name = unique_name(f"{op.sym_name.data}_{number}", self.names)
            part, positions = _part(op, launch, name)
            rewriter.insert(part)
            buffers = len(op.body.block.args) - len(function_symbols(op))
            arguments = [i for i in positions if i < buffers]
            parts.append((name, arguments, [i - buffers for i in positions if i >= buffers]))
        for call in self.calls.get(op.sym_name.data, ()):
            given = () if call.sizes is None else call.sizes.extents
            for name, arguments, sizes in parts:
                own = DimsAttr(tuple(given[i] for i in sizes)) if sizes else None
                launch = loop.CallOp(name, [call.arguments[i] for i in arguments], own)
                launch.attributes.update(call.attributes)
                launch.location = call.location
                rewriter.insert(launch, InsertPoint.before(call))
            rewriter.erase(call)
        rewriter.erase(op)


@dataclass(frozen=True)
class SplitLaunchesPass(ModulePass):
    """Split GPU functions into launches, because blocks can only synchronise between launches.

        loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>, %t: memref<8xf32>) {
          loop.for %i = 0 to 8 thread blockIdx.x { ... writes %t }
          loop.for %i = 0 to 8 thread blockIdx.x { ... reads %t, writes %y }
        }
        func.func @main(...) { loop.call @f(%x, %y, %t) ... }
        ->
        loop.func @f_0(%x: memref<8xf32>, %t: memref<8xf32>) {
          loop.for %i = 0 to 8 thread blockIdx.x { ... }
        }
        loop.func @f_1(%y: memref<8xf32>, %t: memref<8xf32>) {
          loop.for %i = 0 to 8 thread blockIdx.x { ... }
        }
        func.func @main(...) {
          loop.call @f_0(%x, %t) ...
          loop.call @f_1(%y, %t) ... }

    Each outermost nest with thread loops is a launch. Consecutive nests and stores without thread
    loops run on one thread and stay in one launch, with the registers and local buffers that they
    share. Modules for a CPU are not changed. Run `hoist-workspace` first: launches communicate
    through buffers that the caller allocates.

    Raises:
        PassFailedError: two launches use the same buffer of a scope smaller than global, or a value
            that was loaded before the first of them writes to memory.
    """

    name = "split-launches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if thread_blocks_of(op) is not None:
            rewrite(op, [SplitLaunch(calls_by_name(op), symbols_of(op))], once=True)


def _launches(function: loop.FuncOp) -> list[list[Operation]]:
    """Return the ops of a function that have side effects, grouped into launches."""
    launches: list[list[Operation]] = []
    is_open = False
    for op in function.body.block.ops:
        if not isinstance(op, loop.ForOp | loop.GuardOp | loop.StoreOp):
            continue
        is_spread = _has_threads(op)
        if is_open and not is_spread:
            launches[-1].append(op)
        else:
            launches.append([op])
        is_open = not is_spread
    return launches


def _has_threads(nest: Operation) -> bool:
    return any(isinstance(op, loop.ForOp) and op.axis is not None for op in nest.walk())


def _part(
    function: loop.FuncOp, launch: Sequence[Operation], name: str
) -> tuple[loop.FuncOp, list[int]]:
    """Return a function that contains one launch, and the positions of its arguments."""
    block = Block()
    values: dict[SSAValue, SSAValue] = {}
    positions: list[int] = []
    body = function.body.block
    needed = _outer_values(launch)
    known = size_arguments(function)
    for symbol in symbols_in(argument.type for argument in body.args if argument in needed):
        needed.add(known[symbol.name])
    for position, argument in enumerate(body.args):
        if argument in needed:
            new = block.insert_arg(argument.type, len(block.args))
            new.name_hint = argument.name_hint
            values[argument] = new
            positions.append(position)
    for op in body.ops:
        if op in launch:
            block.add_op(op.clone(values))
        elif any(result in needed for result in op.results):
            _check_copied(op, launch)
            block.add_op(op.clone(values))
    part = loop.FuncOp(name, list(block.arg_types), Region(block))
    part.attributes.update(function.attributes)
    set_function_symbols(
        part, [symbol for symbol in function_symbols(function) if known[symbol.name] in needed]
    )
    first = launch[0]
    part.location = first.location if is_known(first.location) else function.location
    return part, positions


def _check_copied(op: Operation, launch: Sequence[Operation]) -> None:
    """Check that an op may be copied into a launch that uses its results."""
    match op:
        case loop.AllocOp():
            block = op.parent_block()
            assert block is not None
            users = (block.find_ancestor_op_in_block(use.operation) for use in op.result.uses)
            if any(user not in launch for user in users if not isinstance(user, loop.LoadOp)):
                raise PassFailedError(
                    f"a buffer of scope {op.scope.data.value} is used by several launches",
                    op=op,
                    hint="use scope global for a buffer that outlives a launch",
                )
        case loop.LoadOp():
            between = op.next_op
            while between is not None and between not in launch:
                if _writes(between, op.memref):
                    raise PassFailedError(
                        "a launch uses a value that was loaded before another launch writes it",
                        op=op,
                        hint="load the value inside the nest that uses it",
                    )
                between = between.next_op
        case _:
            pass


def _writes(op: Operation, buffer: SSAValue) -> bool:
    return any(isinstance(each, loop.StoreOp) and each.memref is buffer for each in op.walk())


def _outer_values(launch: Sequence[Operation]) -> set[SSAValue]:
    """Return the values that a launch uses but does not define, and their operands."""
    needed: set[SSAValue] = set()
    pending = list(launch)
    while pending:
        root = pending.pop()
        for op in root.walk():
            for operand in op.operands:
                if operand in needed or _is_inside(operand, root):
                    continue
                needed.add(operand)
                if isinstance(operand.owner, Operation):
                    pending.append(operand.owner)
    return needed


def _is_inside(value: SSAValue, root: Operation) -> bool:
    owner = value.owner
    op = owner if isinstance(owner, Operation) else owner.parent_op()
    return op is not None and root.is_ancestor(op)
