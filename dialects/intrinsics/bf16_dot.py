"""bf16_dot: two products of bf16 accumulated into an f32."""

from xdsl.ir import SSAValue

from tcopt.dialects.intrinsics import Intrinsic, register
from tcopt.dialects.simd import DotOp
from tcopt.dialects.te import api as te


def behaviour(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Return sum(a[p] * b[p]) in f32."""
    p = te.reduce_axis(2, "p")
    return te.compute(
        (), lambda: te.sum(te.cast(a[p], "f32") * te.cast(b[p], "f32"), axis=p), name="dot"
    )


def lower(acc: SSAValue, a: SSAValue, b: SSAValue) -> list[DotOp]:
    """Lower to the dot product of groups of the simd dialect."""
    return [DotOp(acc, a, b)]


register(
    Intrinsic(
        "bf16_dot",
        inputs={"a": ((2,), "bf16"), "b": ((2,), "bf16")},
        behaviour=behaviour,
        lowering=lower,
        requires=[{"x86_64", "avx512bf16", "avx512vl"}, {"aarch64", "bf16"}],
    )
)
