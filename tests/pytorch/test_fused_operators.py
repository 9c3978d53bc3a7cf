"""Operators that PyTorch fuses in evaluation mode are compiled by their definitions."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import tcopt.torch

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")
nn = torch.nn


def check(model: Any, *inputs: Any, **options: Any) -> None:
    """Compare with eager execution of the operators that are not fused."""
    model.eval()
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch advises on the types of masks.
        warnings.simplefilter("error", tcopt.torch.FallbackWarning)
        run = torch.compile(model, backend=tcopt.torch.backend, fullgraph=True)
        found = run(*inputs, **options)
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            expected = model(*inputs, **options)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("masked", ["", "src_mask", "src_key_padding_mask"])
def test_encoder_layers(norm_first: bool, masked: str) -> None:
    torch.manual_seed(0)
    activation = "gelu" if norm_first else "relu"
    layer = nn.TransformerEncoderLayer(
        16, 2, 32, activation=activation, batch_first=True, norm_first=norm_first
    )
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    if masked == "src_key_padding_mask":
        mask = mask[2:4]
    check(layer, torch.randn(2, 5, 16), **({masked: mask} if masked else {}))


@pytest.mark.parametrize("average", [True, False])
def test_multi_head_attention(average: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 16)
    layer = nn.MultiheadAttention(16, 2, batch_first=True)
    check(layer, x, x, x, average_attn_weights=average)
