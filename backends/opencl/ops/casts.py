"""arith: conversions between numbers."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from tcopt.backends.opencl.ops.arith import as_unsigned
from tcopt.backends.opencl.registry import writes
from tcopt.backends.opencl.types import value_type
from tcopt.backends.opencl.writer import PRECEDENCE, KernelWriter, Text
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


def _converted(op: Operation, text: str) -> Text:
    type = op.results[0].type
    if isinstance(type, VectorType):
        return Text(f"convert_{value_type(type)}({text})")
    return Text(f"({value_type(type)}){text}", PRECEDENCE["unary"])


@writes(*_SIGNED_SOURCE)
def write_cast(k: KernelWriter, op: Operation) -> None:
    (source,), (result,) = op.operands, op.results
    if value_type(source.type) == value_type(result.type):
        k.define(result, Text(k.text(source, 100)))
        return
    if value_type(result.type) == "bool":
        # The lowest bit alone: C would say whether any is set.
        k.pure(op, Text(f"({k.text(source, PRECEDENCE['&'])} & 1) != 0", PRECEDENCE["!="]))
        return
    text = k.text(source, PRECEDENCE["unary"])
    if value_type(source.type) == "bool" and op.name == arith_.ExtSIOp.name:
        k.pure(op, Text(f"-({value_type(result.type)}){text}", PRECEDENCE["unary"]))
        return
    k.pure(op, _converted(op, text))


@writes(*_UNSIGNED_SOURCE)
def write_unsigned_cast(k: KernelWriter, op: Operation) -> None:
    k.pure(op, _converted(op, as_unsigned(k, op.operands[0])))


@writes(arith_.FPToUIOp)
def write_to_unsigned(k: KernelWriter, op: Operation) -> None:
    type = value_type(op.results[0].type)
    text = k.text(op.operands[0], PRECEDENCE["unary"])
    wide = "ulong" if type == "long" else "uint"
    k.pure(op, Text(f"({type})({wide}){text}", PRECEDENCE["unary"]))


@writes(arith.BitcastOp)
def write_bitcast(k: KernelWriter, op: arith.BitcastOp) -> None:
    k.pure(op, f"as_{value_type(op.result.type)}({k.text(op.input)})")
