"""dp4a: four products of i8 added to an i32, by one thread of a GPU."""

from xdsl.ir import SSAValue

from tcopt.dialects.intrinsics import Intrinsic, register
from tcopt.dialects.simd import DotOp
from tcopt.dialects.te import api as te


def behaviour(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """sum(a[p] * b[p]), in i32."""
    p = te.reduce_axis(4, "p")
    return te.compute(
        (), lambda: te.sum(te.cast(a[p], "i32") * te.cast(b[p], "i32"), axis=p), name="dot"
    )


def lower(acc: SSAValue, a: SSAValue, b: SSAValue) -> list[DotOp]:
    """The dot product of groups of the simd dialect."""
    return [DotOp(acc, a, b)]


register(
    Intrinsic(
        "dp4a",
        inputs={"a": ((4,), "i8"), "b": ((4,), "i8")},
        behaviour=behaviour,
        lowering=lower,
        requires=[{"cuda", "dp4a"}, {"opencl", "dp4a"}],
    )
)
