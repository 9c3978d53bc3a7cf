"""scf: loops and branches. What they carry or yield is a variable in front of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block

from tcopt.backends.opencl.registry import writes
from tcopt.backends.opencl.types import value_type
from tcopt.backends.opencl.writer import PRECEDENCE, KernelWriter


@writes(scf.ForOp)
def write_for(k: KernelWriter, op: scf.ForOp) -> None:
    variable, *carried = op.body.block.args
    names: list[str] = []
    for argument, initial, result in zip(carried, op.iter_args, op.results, strict=True):
        hint = argument.name_hint or result.name_hint or "sum"
        name = k.name(argument, hint)
        k.line(f"{value_type(argument.type)} {name} = {k.text(initial)};")
        k.define(argument, name)
        k.define(result, name)
        names.append(name)
    name = k.name(variable, "i")
    k.define(variable, name)
    step = k.text(op.step)
    advance = f"++{name}" if step == "1" else f"{name} += {step}"
    bound = k.text(op.ub, PRECEDENCE["<"] + 1)
    with k.braces(f"for (int {name} = {k.text(op.lb)}; {name} < {bound}; {advance})"):
        _body(k, op.body.block, names)


@writes(scf.IfOp)
def write_if(k: KernelWriter, op: scf.IfOp) -> None:
    names = [k.declare(result) if result.uses else "" for result in op.results]
    otherwise = op.false_region.blocks
    has_else = bool(otherwise) and (any(names) or len(otherwise[0].ops) > 1)
    with k.braces(f"if ({k.text(op.cond)})"):
        _body(k, op.true_region.block, names)
    if has_else:
        with k.braces("else"):
            _body(k, op.false_region.block, names)


def _body(k: KernelWriter, block: Block, names: Sequence[str]) -> None:
    """A region's ops; what it yields goes to variables, none of which is read too late."""
    k.block(block)
    last = block.last_op
    if not isinstance(last, scf.YieldOp):
        return
    pairs = [(name, value) for name, value in zip(names, last.operands, strict=True) if name]
    pairs = [(name, value) for name, value in pairs if k.text(value) != name]
    moves = [(name, k.text(value)) for name, value in pairs]
    types = [value_type(value.type) for _, value in pairs]
    if _reads_assigned(moves):
        saved: list[tuple[str, str]] = []
        for (name, text), type in zip(moves, types, strict=True):
            next_name = k.fresh(f"next_{name}")
            k.line(f"const {type} {next_name} = {text};")
            saved.append((name, next_name))
        moves = saved
    for name, text in moves:
        k.line(f"{name} = {text};")


def _reads_assigned(moves: Sequence[tuple[str, str]]) -> bool:
    """Whether an expression may read a variable that an earlier one was assigned to."""
    assigned: set[str] = set()
    for name, text in moves:
        if assigned & set(re.findall(r"\w+", text)):
            return True
        assigned.add(name)
    return False


@writes(scf.YieldOp)
def write_yield(k: KernelWriter, op: scf.YieldOp) -> None:
    """The op around it assigns what is yielded."""
