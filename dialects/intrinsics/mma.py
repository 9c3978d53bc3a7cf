"""mma: a product of small matrices, accumulated into a third one by the threads of a warp.

The shapes and types of PTX's `mma.sync`: factors of f16 or bf16, accumulators of f32.
"""

from xdsl.ir import SSAValue

from tcopt.dialects.intrinsics import Behaviour, Intrinsic, register
from tcopt.dialects.simt import MmaOp
from tcopt.dialects.te import api as te


def product(m: int, n: int, depth: int) -> Behaviour:
    """Return a behaviour that computes sum(a[i, p] * b[p, j]) over p, in f32."""

    def behaviour(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        p = te.reduce_axis(depth, "p")

        def element(*at: te.Axis) -> te.Reduce:
            i, j = at
            return te.sum(te.cast(a[i, p], "f32") * te.cast(b[p, j], "f32"), axis=p)

        return te.compute((m, n), element, name="mma")

    return behaviour


def lower(acc: SSAValue, a: SSAValue, b: SSAValue) -> list[MmaOp]:
    """Lower to a product of warp-level tiles; `distribute-warp` distributes them over the lanes."""
    return [MmaOp(acc, a, b)]


def declare(m: int, n: int, depth: int, element: str, *features: str) -> None:
    """Register the product for one shape and type of factors."""
    register(
        Intrinsic(
            f"mma_m{m}n{n}k{depth}_{element}",
            inputs={"a": ((m, depth), element), "b": ((depth, n), element)},
            behaviour=product(m, n, depth),
            lowering=lower,
            requires=[{"cuda", *features}],
        )
    )


# Features: m16n8k8 was introduced with integer tiles, m16n8k16 with those of bf16.
declare(16, 8, 8, "f16", "mma_f16", "mma_s8")
declare(16, 8, 8, "bf16", "mma_bf16")
declare(16, 8, 16, "f16", "mma_f16", "mma_bf16")
declare(16, 8, 16, "bf16", "mma_bf16")
