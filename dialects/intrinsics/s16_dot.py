"""s16_dot: two products of i16 added to an i32."""

from xdsl.ir import SSAValue

from tcopt.dialects.intrinsics import Intrinsic, register
from tcopt.dialects.simd import DotOp
from tcopt.dialects.te import api as te


def behaviour(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """sum(a[p] * b[p]), in i32."""
    p = te.reduce_axis(2, "p")
    return te.compute(
        (), lambda: te.sum(te.cast(a[p], "i32") * te.cast(b[p], "i32"), axis=p), name="dot"
    )


def lower(acc: SSAValue, a: SSAValue, b: SSAValue) -> list[DotOp]:
    """The dot product of groups of the simd dialect."""
    return [DotOp(acc, a, b)]


register(
    Intrinsic(
        "s16_dot",
        inputs={"a": ((2,), "i16"), "b": ((2,), "i16")},
        behaviour=behaviour,
        lowering=lower,
        requires=[{"x86_64"}],
    )
)
