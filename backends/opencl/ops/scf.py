"""scf: loops and branches. Carried and yielded values are variables declared before them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects import memref, scf, vector
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.types import is_mask, lanes, mask_type
from tcopt.backends.opencl.emit.writer import PRECEDENCE, OpenClWriter
from tcopt.backends.opencl.ops.memref import loaded
from tcopt.backends.opencl.ops.vector_memory import loaded_vector
from tcopt.dialects.loop.structure import PRAGMA_UNROLL


@writes(scf.ForOp)
def write_for(k: OpenClWriter, op: scf.ForOp) -> None:
    variable, *carried = op.body.block.args
    names: list[str] = []
    for argument, initial, result in zip(carried, op.iter_args, op.results, strict=True):
        if _goes_on(initial, result, op):
            name = k.text(initial)
        else:
            hint = argument.name_hint or result.name_hint or "sum"
            name = k.name(argument, hint)
            k.line(f"{k.type_of(argument)} {name} = {_moved(k, initial)};")
        k.define(argument, name)
        k.define(result, name)
        names.append(name)
    name = k.name(variable, "i")
    k.define(variable, name)
    step = k.text(op.step)
    advance = f"++{name}" if step == "1" else f"{name} += {step}"
    bound = k.text(op.ub, PRECEDENCE["<"] + 1)
    pragma = op.attributes.get(PRAGMA_UNROLL)
    if isinstance(pragma, IntegerAttr):
        k.line(f"#pragma unroll {pragma.value.data}")
    with k.braces(f"for (int {name} = {k.text(op.lb)}; {name} < {bound}; {advance})"):
        _body(k, op.body.block, names)


def _goes_on(initial: SSAValue, result: SSAValue, op: Operation) -> bool:
    """Whether an op updates a loop-carried value without other readers: both can be one
    variable."""
    loop = op.parent_op()
    if not isinstance(initial, BlockArgument) or not isinstance(loop, scf.ForOp):
        return False
    if initial.owner is not loop.body.block or initial.index == 0:
        return False
    last = initial.owner.last_op
    uses = list(result.uses)
    carried_on = len(uses) == 1 and uses[0].operation is last and uses[0].index == initial.index - 1
    return carried_on and all(
        use.operation is op or op.is_ancestor(use.operation) for use in initial.uses
    )


@writes(scf.IfOp)
def write_if(k: OpenClWriter, op: scf.IfOp) -> None:
    if (chosen := _choice(k, op)) is not None:
        k.assign(op.results[0], chosen, default=op.results[0].name_hint or "v")
        return
    names = [_result_name(k, op, result) if result.uses else "" for result in op.results]
    with k.braces(f"if ({k.text(op.cond)})"):
        _body(k, op.true_region.block, names)
    if op.false_region.blocks:
        with k.braces("else"):
            _body(k, op.false_region.block, names)
        if k.lines[-2].endswith("else {"):
            del k.lines[-2:]


def _result_name(k: OpenClWriter, op: scf.IfOp, result: SSAValue) -> str:
    """Return the variable for the result of a branch."""
    loop = op.parent_op()
    if isinstance(loop, scf.ForOp):
        for argument in loop.body.block.args[1:]:
            if _goes_on(argument, result, op):
                k.define(result, k.text(argument))
                return k.text(argument)
    return k.declare(result)


def _choice(k: OpenClWriter, op: scf.IfOp) -> str | None:
    """Return `condition ? element : otherwise` for a branch that only loads."""
    if len(op.results) != 1 or not op.results[0].uses or is_mask(op.results[0].type):
        return None
    load, *rest = op.true_region.block.ops
    if not isinstance(load, memref.LoadOp | vector.LoadOp) or len(rest) != 1:
        return None
    (otherwise, *others) = op.false_region.block.ops
    if others or rest[0].operands[0] is not load.results[0]:
        return None
    text = loaded(k, load) if isinstance(load, memref.LoadOp) else loaded_vector(k, load)
    condition = k.text(op.cond, PRECEDENCE["?"] + 1)
    return f"{condition} ? {text} : {k.text(otherwise.operands[0], PRECEDENCE['?'])}"


def _moved(k: OpenClWriter, value: SSAValue) -> str:
    """Return a value as assigned to a variable; masks have 32-bit elements there."""
    return k.mask(value, 32) if is_mask(value.type) else k.text(value)


def _body(k: OpenClWriter, block: Block, names: Sequence[str]) -> None:
    """Emit the ops of a region and assign its yielded values to variables, without reading any
    of them after its assignment."""
    k.block(block)
    last = block.last_op
    if not isinstance(last, scf.YieldOp):
        return
    pairs = [(name, value) for name, value in zip(names, last.operands, strict=True) if name]
    pairs = [(name, value) for name, value in pairs if k.text(value) != name]
    moves = [(name, _moved(k, value)) for name, value in pairs]
    types = [
        mask_type(32, lanes(value.type)) if is_mask(value.type) else k.type_of(value)
        for _, value in pairs
    ]
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
    """Whether an expression may read a variable that was assigned earlier."""
    assigned: set[str] = set()
    for name, text in moves:
        if assigned & set(re.findall(r"\w+", text)):
            return True
        assigned.add(name)
    return False


@writes(scf.YieldOp)
def write_yield(k: OpenClWriter, op: scf.YieldOp) -> None:
    """Emit nothing: the enclosing op assigns the yielded values."""
