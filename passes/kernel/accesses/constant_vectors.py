"""Recognition of the constant index patterns of vector accesses."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import SSAValue
from xdsl.transforms.canonicalization_patterns.utils import const_evaluate_operand
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
    """Split an index into a value, None for 0, and a constant offset."""
    offset = 0
    while True:
        owner = index.owner
        if (number := const_evaluate_operand(index)) is not None:
            return None, offset + number
        if not isinstance(owner, arith.AddiOp):
            return index, offset
        for constant, rest in ((owner.rhs, owner.lhs), (owner.lhs, owner.rhs)):
            if (number := const_evaluate_operand(constant)) is not None:
                offset += number
                index = rest
                break
        else:
            return index, offset
