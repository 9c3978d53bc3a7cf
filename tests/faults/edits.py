"""Small incorrect changes of IR, as a faulty pass would make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

Edit = Callable[[ModuleOp], None]


def find(module: ModuleOp, name: str, number: int = 0, inside: str = "") -> Operation:
    """Return the n-th op of a name, below an op of another name if one is given."""

    def is_inside(op: Operation) -> bool:
        parent = op.parent_op()
        while parent is not None and parent.name != inside:
            parent = parent.parent_op()
        return parent is not None

    found = [op for op in module.walk() if op.name == name and (not inside or is_inside(op))]
    return found[number]


def bypass(name: str, number: int = 0, inside: str = "") -> Edit:
    """Replace an op by its operand."""

    def edit(module: ModuleOp) -> None:
        op = find(module, name, number, inside)
        operand = next(each for each in op.operands if each.type == op.results[0].type)
        op.results[0].replace_all_uses_with(operand)
        Rewriter.erase_op(op)

    return edit


def exchange(name: str, new: type[Operation], number: int = 0, inside: str = "") -> Edit:
    """Replace an op by another with the same operands."""

    def edit(module: ModuleOp) -> None:
        op = find(module, name, number, inside)
        other: Any = new
        made = other(*op.operands)
        made.location = op.location
        Rewriter.replace_op(op, made)

    return edit


def shift(name: str, by: int, number: int = 0, dim: int = -1, inside: str = "") -> Edit:
    """Shift one index of an access map."""

    def edit(module: ModuleOp) -> None:
        op = find(module, name, number, inside)
        attribute = op.properties["map"]
        assert isinstance(attribute, AffineMapAttr)
        results = list(attribute.data.results)
        results[dim] = results[dim] + AffineExpr.constant(by)
        op.properties["map"] = AffineMapAttr(
            AffineMap(attribute.data.num_dims, attribute.data.num_symbols, tuple(results))
        )

    return edit


def number(name: str, key: str, change: Callable[[int], int], at: int = 0, which: int = 0) -> Edit:
    """Change an integer property, or one element of a list of integers."""

    def edit(module: ModuleOp) -> None:
        op = find(module, name, which)
        attribute = op.properties[key]
        if isinstance(attribute, IntegerAttr):
            op.properties[key] = IntegerAttr(change(attribute.value.data), attribute.type)
            return
        assert isinstance(attribute, DenseArrayBase)
        values = [int(value) for value in attribute.get_values()]
        values[at] = change(values[at])
        op.properties[key] = DenseArrayBase.from_list(i64, values)

    return edit


def constant(value: float, new: float, name: str = "arith.constant", key: str = "value") -> Edit:
    """Replace the first float constant of a value."""

    def edit(module: ModuleOp) -> None:
        for op in module.walk():
            attribute = op.properties.get(key)
            if op.name != name or not isinstance(attribute, FloatAttr):
                continue
            if attribute.value.data == value:
                op.properties[key] = FloatAttr(new, attribute.type)
                return
        raise LookupError(f"no constant {value}")

    return edit


def inline(name: str, number: int = 0) -> Edit:
    """Remove a guard or condition without results, keeping its body."""

    def edit(module: ModuleOp) -> None:
        found = [op for op in module.walk() if op.name == name and not op.results]
        op = found[number]
        block = op.regions[0].blocks[0]
        for inner in list(block.ops):
            if inner.name == "scf.yield":
                continue
            inner.detach()
            Rewriter.insert_op(inner, InsertPoint.before(op))
        Rewriter.erase_op(op)

    return edit


def erase(name: str, number: int = 0, inside: str = "") -> Edit:
    """Remove an op without results."""
    return lambda module: Rewriter.erase_op(find(module, name, number, inside))


def twice(name: str, number: int = 0, inside: str = "") -> Edit:
    """Duplicate an op without results."""

    def edit(module: ModuleOp) -> None:
        op = find(module, name, number, inside)
        Rewriter.insert_op(op.clone(), InsertPoint.after(op))

    return edit


def swap_operands(name: str, first: int, second: int, number: int = 0, inside: str = "") -> Edit:
    def edit(module: ModuleOp) -> None:
        op = find(module, name, number, inside)
        operands = list(op.operands)
        operands[first], operands[second] = operands[second], operands[first]
        op.operands = operands

    return edit


def operand(name: str, position: int, value: int, which: int = 0, inside: str = "") -> Edit:
    """Replace an index operand by a constant."""

    def edit(module: ModuleOp) -> None:
        op = find(module, name, which, inside)
        made = arith.ConstantOp.from_int_and_width(value, op.operands[position].type)  # type: ignore
        Rewriter.insert_op(made, InsertPoint.before(op))
        op.operands[position % len(op.operands)] = made.result

    return edit


def add_to_index(name: str, position: int, by: int, which: int = 0, inside: str = "") -> Edit:
    """Shift an index operand."""

    def edit(module: ModuleOp) -> None:
        op = find(module, name, which, inside)
        old: SSAValue = op.operands[position % len(op.operands)]
        made = arith.ConstantOp.from_int_and_width(by, old.type)  # type: ignore
        total = arith.AddiOp(old, made.result)
        Rewriter.insert_op([made, total], InsertPoint.before(op))
        op.operands[position % len(op.operands)] = total.result

    return edit


def endless(number: int = 0) -> Edit:
    """Give a loop a step of zero, which the code generator does not detect."""

    def edit(module: ModuleOp) -> None:
        op = find(module, "scf.for", number)
        step = op.operands[2]
        two = arith.ConstantOp.from_int_and_width(2, step.type)  # type: ignore
        zero = arith.DivUIOp(step, two)
        Rewriter.insert_op([two, zero], InsertPoint.before(op))
        op.operands[2] = zero.result

    return edit


def swap_yields(module: ModuleOp) -> None:
    """Swap two loop-carried values."""
    for op in module.walk():
        if op.name == "scf.yield" and len({value.type for value in op.operands}) == 1:
            operands = list(op.operands)
            if len(operands) > 1 and operands[0] is not operands[1]:
                op.operands = [operands[1], operands[0], *operands[2:]]
                return
    raise LookupError("no loop carries two values")
