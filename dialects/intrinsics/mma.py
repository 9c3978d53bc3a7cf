"""mma: a product of small matrices, added to a third one by the threads of a warp together.

What `mma.sync` of PTX computes, in its shapes: factors of f16 or bf16, sums of f32.
"""

from xdsl.ir import SSAValue

from tcopt.dialects.intrinsics import Behaviour, Intrinsic, register
from tcopt.dialects.simt import MmaOp
from tcopt.dialects.te import api as te


def product(m: int, n: int, depth: int) -> Behaviour:
    """sum(a[i, p] * b[p, j]) over p, in f32."""

    def behaviour(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        p = te.reduce_axis(depth, "p")

        def element(*at: te.Axis) -> te.Reduce:
            i, j = at
            return te.sum(te.cast(a[i, p], "f32") * te.cast(b[p, j], "f32"), axis=p)

        return te.compute((m, n), element, name="mma")

    return behaviour


def lower(acc: SSAValue, a: SSAValue, b: SSAValue) -> list[MmaOp]:
    """Tiles of the warp as they are; `distribute-warp` spreads them over its lanes."""
    return [MmaOp(acc, a, b)]


def declare(m: int, n: int, depth: int, element: str, *features: str) -> None:
    """Declare the product of one shape and type of factors."""
    register(
        Intrinsic(
            f"mma_m{m}n{n}k{depth}_{element}",
            inputs={"a": ((m, depth), element), "b": ((depth, n), element)},
            behaviour=product(m, n, depth),
            lowering=lower,
            requires=[{"cuda", *features}],
        )
    )


# The shapes came with other features: m16n8k8 with integer tiles, m16n8k16 with those of bf16.
declare(16, 8, 8, "f16", "mma_f16", "mma_s8")
declare(16, 8, 8, "bf16", "mma_bf16")
declare(16, 8, 16, "f16", "mma_f16", "mma_bf16")
declare(16, 8, 16, "bf16", "mma_bf16")
