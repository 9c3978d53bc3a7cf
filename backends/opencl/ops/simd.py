"""simd: dot products of short groups of integers."""

from __future__ import annotations

from xdsl.dialects import vector
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import SSAValue
from xdsl.utils.type import get_element_type_or_self

from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.types import lanes, scalar_type, unsigned, value_type
from tcopt.backends.opencl.emit.writer import OpenClWriter
from tcopt.backends.opencl.ops.vector import lane, picked
from tcopt.dialects.simd import DotOp
from tcopt.support.errors import UnsupportedError


@writes(DotOp)
def write_dot(k: OpenClWriter, op: DotOp) -> None:
    """Call a function that adds the products, which compilers turn into an instruction."""
    narrow = op.lhs.type.element_type if isinstance(op.lhs.type, VectorType) else None
    wide = get_element_type_or_self(op.result.type)
    if not isinstance(narrow, IntegerType) or not isinstance(wide, IntegerType):
        raise UnsupportedError("OpenCL C only supports dot products of integers", op=op)
    marks = (op.lhs_unsigned, op.rhs_unsigned)
    name = scalar_type(narrow)
    types = [f"{name if mark is None else unsigned(name)}{op.group}" for mark in marks]
    function = f"dot_{'_'.join(types)}"
    products = " + ".join(f"({scalar_type(wide)})a.s{i:x} * b.s{i:x}" for i in range(op.group))
    k.helpers.need(
        function,
        f"{scalar_type(wide)} {function}({scalar_type(wide)} sum, {types[0]} a, {types[1]} b)\n"
        f"{{\n  return sum + ({products});\n}}",
    )

    def sum(number: int | None) -> str:
        acc = k.text(op.acc, 100) if number is None else lane(k.text(op.acc, 100), number)
        listed = [acc]
        for value, mark, type in zip((op.lhs, op.rhs), marks, types, strict=True):
            text = k.text(value) if number is None else _group_of(k, value, number, op.group)
            listed.append(text if mark is None else f"as_{type}({text})")
        return f"{function}({', '.join(listed)})"

    if not isinstance(op.result.type, VectorType):
        k.assign(op.result, sum(None), default="dot")
        return
    listed = ", ".join(sum(number) for number in range(lanes(op.result.type)))
    k.assign(op.result, f"({value_type(op.result.type)})({listed})", default="dot")


def _group_of(k: OpenClWriter, value: SSAValue, number: int, group: int) -> str:
    """Return the factors of one lane; a broadcast group is the same for all lanes."""
    source = value.owner
    if isinstance(source, vector.BroadcastOp) and isinstance(source.source.type, VectorType):
        return k.text(source.source)
    return picked(k, value, range(number * group, (number + 1) * group))
