"""A matrix product and a softmax in Triton, tuned over a few configurations.

They follow Triton's tutorials; `@triton.jit` reads the source of a function, so they are plain
functions of this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import triton
import triton.language as tl
from onnx import ModelProto

_CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk}, num_stages=stages, num_warps=warps)
    for bm, bn, bk, stages, warps in (
        (128, 256, 64, 3, 8),
        (128, 128, 32, 4, 4),
        (64, 128, 32, 4, 4),
        (64, 64, 32, 4, 4),
        (32, 64, 64, 4, 4),
    )
]


@triton.autotune(configs=_CONFIGS, key=["M", "N", "K"])
@triton.jit
def _product(
    a,
    b,
    c,
    M,
    N,
    K,
    INTEGER: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    columns = tl.cdiv(N, BN)
    block_m, block_n = tl.program_id(0) // columns, tl.program_id(0) % columns
    rm, rn, rk = block_m * BM + tl.arange(0, BM), block_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    total = tl.zeros((BM, BN), dtype=tl.int32 if INTEGER else tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        xa = tl.load(pa, mask=(rm[:, None] < M) & (rk[None, :] < left), other=0)
        xb = tl.load(pb, mask=(rk[:, None] < left) & (rn[None, :] < N), other=0)
        total = tl.dot(xa, xb, total, out_dtype=total.dtype, input_precision="ieee")
        pa += BK
        pb += BK * N
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * N + rn[None, :], total.to(c.dtype.element_ty), mask=mask)


@triton.jit
def _softmax(x, y, WIDTH, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * WIDTH + lanes, mask=lanes < WIDTH, other=-float("inf"))
    wide = row.to(tl.float32)
    powers = tl.exp(wide - tl.max(wide, axis=0))
    result = powers / tl.sum(powers, axis=0)
    tl.store(y + tl.program_id(0) * WIDTH + lanes, result.to(row.dtype), mask=lanes < WIDTH)


def triton_run(
    torch: Any, model: ModelProto, tensors: Mapping[str, Any], network: Any
) -> Callable[[], Sequence[Any]]:
    """A run of a model of one product or softmax.

    Raises:
        KeyError: the model is another one.
    """
    (node,) = model.graph.node
    x = tensors[node.input[0]]
    if node.op_type == "Softmax":
        y, width = torch.empty_like(x), x.shape[-1]
        rows, block = x.numel() // width, triton.next_power_of_2(width)

        def softmax() -> Sequence[Any]:
            _softmax[(rows,)](x, y, width, BLOCK=block, num_warps=8)
            return [y]

        return softmax
    if node.op_type not in ("MatMul", "MatMulInteger"):
        raise KeyError(node.op_type)
    w = tensors[node.input[1]] if node.input[1] in tensors else network.weight(node.input[1])
    (m, k), n = x.shape, w.shape[1]
    integer = node.op_type == "MatMulInteger"
    z = torch.empty((m, n), device=x.device, dtype=torch.int32 if integer else x.dtype)

    def grid(choice: Mapping[str, int]) -> tuple[int]:
        return (triton.cdiv(m, choice["BM"]) * triton.cdiv(n, choice["BN"]),)

    def product() -> Sequence[Any]:
        _product[grid](x, w, z, m, n, k, INTEGER=integer)
        return [z]

    return product
