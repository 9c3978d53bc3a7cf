"""Nests of a GPU's function as functions of their own."""

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
    """Make each outermost nest of a function a function, and a call of it a call of each.

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
        calls: of each function, by its name.
        names: of the module's functions, to which those of new ones are added.
    """

    calls: Mapping[str, Sequence[loop.CallOp]]
    names: set[str]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.FuncOp, rewriter: PatternRewriter) -> None:
        nests = [each for each in op.body.block.ops if _is_nest(each)]
        if len(nests) < 2:
            return
        parts: list[tuple[str, list[int]]] = []
        for number, nest in enumerate(nests):
            name = unique_name(f"{op.sym_name.data}_{number}", self.names)
            part, arguments = _part(op, nest, name)
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
    """Makes each outermost nest of a function for a GPU a function of its own, which is
    launched by itself: threads of different blocks wait for each other at its end only.

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

    Nothing is done in a module for a CPU. Run `hoist-workspace` first: what one launch hands to
    the next is memory that the caller gives.

    Raises:
        PassFailedError: a buffer of a smaller scope is used by two nests.
    """

    name = "split-launches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if thread_blocks_of(op) is not None:
            rewrite(op, [SplitLaunch(calls_by_name(op), symbols_of(op))], once=True)


def _is_nest(op: Operation) -> bool:
    return isinstance(op, loop.ForOp | loop.GuardOp | loop.StoreOp)


def _part(function: loop.FuncOp, nest: Operation, name: str) -> tuple[loop.FuncOp, list[int]]:
    """A function with one nest, and the positions of the arguments that it takes."""
    block = Block()
    values: dict[SSAValue, SSAValue] = {}
    positions: list[int] = []
    needed = _outer_values(nest)
    for position, argument in enumerate(function.body.block.args):
        if argument in needed:
            new = block.insert_arg(argument.type, len(block.args))
            new.name_hint = argument.name_hint
            values[argument] = new
            positions.append(position)
    body = function.body.block
    for op in body.ops:
        if any(result in needed for result in op.results):
            users = {body.find_ancestor_op_in_block(u.operation) for u in op.results[0].uses}
            if isinstance(op, loop.AllocOp) and len(users) > 1:
                raise PassFailedError(
                    f"a buffer of scope {op.scope.data.value} is used by several launches",
                    op=op,
                    hint="such a buffer is alive in one of them; let it be global",
                )
            block.add_op(op.clone(values))
    block.add_op(nest.clone(values))
    part = loop.FuncOp(name, list(block.arg_types), Region(block))
    part.attributes.update(function.attributes)
    part.location = nest.location if is_known(nest.location) else function.location
    return part, positions


def _outer_values(nest: Operation) -> set[SSAValue]:
    """What a nest uses and does not define, with what that is made of."""
    needed: set[SSAValue] = set()
    pending = [nest]
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
