"""arith: conversions between element types."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, VectorType, i1
from xdsl.ir import Attribute, Operation
from xdsl.utils.type import get_element_type_or_self

from tcopt.backends.opencl.emit.packed import from_bf16, is_bf16, to_bf16
from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.types import is_mask, lanes, mask_bits, unsigned
from tcopt.backends.opencl.emit.writer import PRECEDENCE, OpenClWriter, Text
from tcopt.backends.opencl.ops.arith import as_unsigned
from tcopt.dialects import arith_

_UNSIGNED_SOURCE = (arith_.ExtUIOp, arith_.UIToFPOp, arith_.IndexCastUIOp)
_SIGNED_SOURCE = (
    arith_.ExtSIOp,
    arith_.TruncIOp,
    arith_.SIToFPOp,
    arith_.FPToSIOp,
    arith_.IndexCastOp,
    arith.ExtFOp,
    arith.TruncFOp,
)


def _converted(k: OpenClWriter, type: Attribute, text: str) -> Text:
    name = k.value_type(type)
    if isinstance(type, VectorType):
        found = Text(f"convert_{name}({text})")
    else:
        found = Text(f"({name}){text}", PRECEDENCE["unary"])
    is_rounded = isinstance(get_element_type_or_self(type), BFloat16Type)
    return Text(_rounded(k, type, found.text)) if is_rounded else found


def _rounded(k: OpenClWriter, type: Attribute, text: str) -> str:
    """A float rounded to bf16, as a float."""
    count = lanes(type) if isinstance(type, VectorType) else 0
    return from_bf16(k, to_bf16(k, text, count), count)


@writes(*_SIGNED_SOURCE)
def write_cast(k: OpenClWriter, op: Operation) -> None:
    (source,), (result,) = op.operands, op.results
    if is_mask(source.type):
        k.pure(op, _converted(k, result.type, k.text(source)))
        return
    if k.value_type(source.type) == k.value_type(result.type) and is_bf16(result):
        k.pure(op, _rounded(k, result.type, k.text(source)))
        return
    if k.value_type(source.type) == k.value_type(result.type):
        k.define(result, Text(k.text(source, 100)))
        return
    if get_element_type_or_self(result.type) == i1:
        # Test the lowest bit only; a C conversion to bool would test for nonzero.
        text = Text(f"({k.text(source, PRECEDENCE['&'])} & 1) != 0", PRECEDENCE["!="])
        k.pure(op, text, mask_bits(source.type))
        return
    text = k.text(source, PRECEDENCE["unary"])
    if k.value_type(source.type) == "bool" and op.name == arith_.ExtSIOp.name:
        k.pure(op, Text(f"-({k.value_type(result.type)}){text}", PRECEDENCE["unary"]))
        return
    k.pure(op, _converted(k, result.type, text))


@writes(*_UNSIGNED_SOURCE)
def write_unsigned_cast(k: OpenClWriter, op: Operation) -> None:
    (source,) = op.operands
    if is_mask(source.type):
        # Mask lanes are -1 for true.
        text = f"-{k.text(source, PRECEDENCE['unary'] + 1)}"
    else:
        text = as_unsigned(k, source)
    k.pure(op, _converted(k, op.results[0].type, text))


@writes(arith_.FPToUIOp)
def write_to_unsigned(k: OpenClWriter, op: Operation) -> None:
    (result,) = op.results
    text = k.text(op.operands[0], PRECEDENCE["unary"])
    if isinstance(result.type, VectorType):
        name = k.value_type(result.type)
        k.pure(op, f"as_{name}(convert_{unsigned(name)}({text}))")
        return
    type = k.value_type(result.type)
    wide = "ulong" if type == "long" else "uint"
    k.pure(op, Text(f"({type})({wide}){text}", PRECEDENCE["unary"]))


@writes(arith.BitcastOp)
def write_bitcast(k: OpenClWriter, op: arith.BitcastOp) -> None:
    if is_bf16(op.input):
        k.pure(op, f"as_short({to_bf16(k, k.text(op.input))})")
        return
    if is_bf16(op.result):
        k.pure(op, from_bf16(k, f"as_ushort({k.text(op.input)})"))
        return
    k.pure(op, f"as_{k.value_type(op.result.type)}({k.text(op.input)})")
