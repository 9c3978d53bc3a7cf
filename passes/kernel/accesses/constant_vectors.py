"""Recognition of the constant index patterns of vector accesses."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa


def constant_step(offsets: SSAValue) -> int | None:
    """Return the step of a constant vector `0, step, 2 step, ...`; None if it is not one."""
    constant = offsets.owner
    if not isinstance(constant, arith.ConstantOp) or not isa(
        constant.value, DenseIntOrFPElementsAttr
    ):
        return None
    values = [int(value) for value in constant.value.get_values()]  # pyright: ignore
    step = values[1] if len(values) > 1 else 0
    return step if step and values == [lane * step for lane in range(len(values))] else None


def base_and_offset(index: SSAValue) -> tuple[SSAValue | None, int]:
    """Split an index into a value and a constant offset."""
    offset = 0
    while True:
        owner = index.owner
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
            return None, offset + owner.value.value.data
        if not isinstance(owner, arith.AddiOp):
            return index, offset
        for constant, rest in ((owner.rhs, owner.lhs), (owner.lhs, owner.rhs)):
            number = constant.owner
            if isinstance(number, arith.ConstantOp) and isinstance(number.value, IntegerAttr):
                offset += number.value.value.data
                index = rest
                break
        else:
            return index, offset
