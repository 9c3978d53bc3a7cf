"""Dot products of groups of narrow integers, accumulated into an i32."""

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from tcopt.dialects.intrinsics import Intrinsic, register
from tcopt.dialects.simd import DotOp
from tcopt.dialects.te import api as te


def behaviour(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Return sum(a[p] * b[p]) in i32."""
    p = te.reduce_axis(a.shape[0], "p")
    return te.compute(
        (), lambda: te.sum(te.cast(a[p], "i32") * te.cast(b[p], "i32"), axis=p), name="dot"
    )


def lower(acc: SSAValue, a: SSAValue, b: SSAValue, *, lhs_unsigned: bool) -> list[DotOp]:
    """Lower to the dot product of groups of the simd dialect."""
    return [DotOp(acc, a, b, lhs_unsigned=lhs_unsigned)]


def _register(name: str, terms: int, a: str, b: str, requires: Sequence[set[str]]) -> None:
    register(
        Intrinsic(
            name,
            inputs={"a": ((terms,), a), "b": ((terms,), b)},
            behaviour=behaviour,
            lowering=partial(lower, lhs_unsigned=a.startswith("u")),
            requires=requires,
        )
    )


_register("s8_dot", 4, "i8", "i8", [{"x86_64", "avxvnniint8"}, {"aarch64", "dotprod"}])
_register("s16_dot", 2, "i16", "i16", [{"x86_64"}])
_register(
    "u8s8_dot",
    4,
    "ui8",
    "i8",
    [{"x86_64", "avx512vnni", "avx512vl"}, {"x86_64", "avxvnni"}, {"aarch64", "i8mm"}],
)
# Instructions of a single GPU thread.
_register("dp4a", 4, "i8", "i8", [{"cuda", "dp4a"}, {"opencl", "dp4a"}])
_register("dp4a_u8s8", 4, "ui8", "i8", [{"cuda", "dp4a"}, {"opencl", "dp4a"}])
