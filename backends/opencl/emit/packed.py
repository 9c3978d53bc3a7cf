"""Buffers of 16-bit floats that a device does not compute in: conversions as they are accessed.

`half` has functions of OpenCL C. A bf16 is the high half of a float; it is a `ushort` in memory and
a `float` in kernels, which is rounded when it is stored.
"""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type
from xdsl.ir import SSAValue
from xdsl.utils.type import get_element_type_or_self

from tcopt.backends.opencl.emit.writer import OpenClWriter


def is_bf16(value: SSAValue) -> bool:
    """Whether a value, or an element of a buffer, is a bf16."""
    return isinstance(get_element_type_or_self(value.type), BFloat16Type)


def load_packed(k: OpenClWriter, buffer: SSAValue, offset: str, count: int = 0) -> str:
    """The text that loads an element, or a vector of neighbours.

    Args:
        offset: of the first element.
        count: lanes of a vector, 0 for a scalar.
    """
    if not is_bf16(buffer):
        if not count:
            return f"vload_half({offset}, {k.text(buffer)})"
        return f"vload_half{count}(0, {_at(k, buffer, offset)})"
    if count:
        return from_bf16(k, f"vload{count}(0, {_at(k, buffer, offset)})", count)
    return from_bf16(k, f"{k.text(buffer)}[{offset}]")


def store_packed(k: OpenClWriter, buffer: SSAValue, offset: str, value: str, count: int = 0) -> str:
    """The statement that stores an element, or a vector of neighbours."""
    if not is_bf16(buffer):
        if not count:
            return f"vstore_half_rte({value}, {offset}, {k.text(buffer)});"
        return f"vstore_half{count}_rte({value}, 0, {_at(k, buffer, offset)});"
    bits = to_bf16(k, value, count)
    if count:
        return f"vstore{count}({bits}, 0, {_at(k, buffer, offset)});"
    return f"{k.text(buffer)}[{offset}] = {bits};"


def from_bf16(k: OpenClWriter, bits: str, count: int = 0) -> str:
    """The float with the value of the bits of a bf16, exactly."""
    lanes = count or ""
    name = f"bf16_value{lanes}"
    k.helpers.need(
        name,
        f"float{lanes} {name}(ushort{lanes} bits) {{\n"
        f"  return as_float{lanes}(convert_uint{lanes}(bits) << 16);\n}}",
    )
    return f"{name}({bits})"


def to_bf16(k: OpenClWriter, value: str, count: int = 0) -> str:
    """The bits of the bf16 that is nearest to a float, the even one of two."""
    lanes = count or ""
    name = f"bf16_bits{lanes}"
    number = f"uint{lanes}"
    k.helpers.need(
        name,
        f"ushort{lanes} {name}(float{lanes} x) {{\n"
        f"  {number} bits = as_uint{lanes}(x);\n"
        f"  {number} rounded = bits + 0x7fffu + (bits >> 16 & 1u);\n"
        f"  {number} quiet = bits | 0x400000u;\n"
        f"  return convert_ushort{lanes}((isnan(x) ? quiet : rounded) >> 16);\n}}",
    )
    return f"{name}({value})"


def _at(k: OpenClWriter, buffer: SSAValue, offset: str) -> str:
    return k.text(buffer) if offset == "0" else f"{k.text(buffer)} + {offset}"
