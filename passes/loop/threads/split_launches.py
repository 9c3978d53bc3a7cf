"""Launches of a GPU's function as functions of their own."""

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
from tcopt.dialects.target import thread_blocks_of
from tcopt.dialects.te.names import symbols_of, unique_name
from tcopt.passes.loop.analysis.calls import calls_by_name
from tcopt.support.errors import PassFailedError
from tcopt.support.locations import is_known
from tcopt.support.rewriting import rewrite


@dataclass
class SplitLaunch(RewritePattern):
    """Make each launch of a function a function, and a call of it a call of each.

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
        calls: the calls of each function, by its name.
        names: the names of the module's functions; those of new functions are added.
    """

    calls: Mapping[str, Sequence[loop.CallOp]]
    names: set[str]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.FuncOp, rewriter: PatternRewriter) -> None:
        launches = _launches(op)
        if len(launches) < 2:
            return
        parts: list[tuple[str, list[int]]] = []
        for number, launch in enumerate(launches):
            name = unique_name(f"{op.sym_name.data}_{number}", self.names)
            part, arguments = _part(op, launch, name)
            rewriter.insert(part)
            parts.append((name, arguments))
        for call in self.calls.get(op.sym_name.data, ()):
            for name, arguments in parts:
                launch = loop.CallOp(name, [call.arguments[i] for i in arguments])
                launch.attributes.update(call.attributes)
                launch.location = call.location
                rewriter.insert(launch, InsertPoint.before(call))
            rewriter.erase(call)
        rewriter.erase(op)


@dataclass(frozen=True)
class SplitLaunchesPass(ModulePass):
    """Splits a GPU function into launches: threads of different blocks can only wait for each
    other at the end of a launch.

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

    Each outermost nest with thread loops is a launch. Nests and stores without thread loops that
    follow each other run on one thread and stay in one launch, with the registers and local
    buffers that they share. Modules for a CPU are left unchanged. Run `hoist-workspace` first:
    launches pass values to each other in buffers that the caller allocates.

    Raises:
        PassFailedError: two launches use the same buffer of a scope smaller than global, or a
            value that was loaded before the first of them writes to memory.
    """

    name = "split-launches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if thread_blocks_of(op) is not None:
            rewrite(op, [SplitLaunch(calls_by_name(op), symbols_of(op))], once=True)


def _launches(function: loop.FuncOp) -> list[list[Operation]]:
    """The ops of a function that have effects, grouped into launches."""
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
    """A function that holds one launch, and the positions of the arguments that it takes."""
    block = Block()
    values: dict[SSAValue, SSAValue] = {}
    positions: list[int] = []
    body = function.body.block
    needed = _outer_values(launch)
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
    first = launch[0]
    part.location = first.location if is_known(first.location) else function.location
    return part, positions


def _check_copied(op: Operation, launch: Sequence[Operation]) -> None:
    """Check that a launch may have a copy of an op that precedes it, or is between its ops."""
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
                        "a launch uses the value of a load in front of another that writes it",
                        op=op,
                        hint="load the value inside the nest that uses it",
                    )
                between = between.next_op
        case _:
            pass


def _writes(op: Operation, buffer: SSAValue) -> bool:
    return any(isinstance(each, loop.StoreOp) and each.memref is buffer for each in op.walk())


def _outer_values(launch: Sequence[Operation]) -> set[SSAValue]:
    """The values that a launch uses and does not define, with those they are computed from."""
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
