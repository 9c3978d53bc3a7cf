"""simd: products of short groups of integers."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, VectorType

from tcopt.backends.opencl.registry import writes
from tcopt.backends.opencl.types import scalar_type, unsigned
from tcopt.backends.opencl.writer import KernelWriter
from tcopt.dialects.simd import DotOp
from tcopt.support.errors import UnsupportedError


@writes(DotOp)
def write_dot(k: KernelWriter, op: DotOp) -> None:
    """A function that adds the products; a compiler makes an instruction of it where it can."""
    narrow = op.lhs.type.element_type if isinstance(op.lhs.type, VectorType) else None
    if not isinstance(narrow, IntegerType) or isinstance(op.result.type, VectorType):
        raise UnsupportedError("OpenCL C has dot products of integers alone", op=op)
    kinds: list[str] = []
    for mark in (op.lhs_unsigned, op.rhs_unsigned):
        name = scalar_type(narrow)
        kinds.append(name if mark is None else unsigned(name))
    wide, group = scalar_type(op.result.type), op.group
    types = [f"{kind}{group}" for kind in kinds]
    function = f"dot_{'_'.join(types)}"
    products = " + ".join(f"({wide})a.s{i:x} * b.s{i:x}" for i in range(group))
    k.helpers.need(
        function,
        f"{wide} {function}({wide} sum, {types[0]} a, {types[1]} b)\n"
        f"{{\n  return sum + ({products});\n}}",
    )
    operands = [
        k.text(value) if mark is None else f"as_{type}({k.text(value)})"
        for value, mark, type in zip(
            (op.lhs, op.rhs), (op.lhs_unsigned, op.rhs_unsigned), types, strict=True
        )
    ]
    k.assign(op.result, f"{function}({k.text(op.acc)}, {', '.join(operands)})", default="dot")
