"""Tensors of PyTorch as feeds and results, without copies."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tcopt.support.errors import InputError


def feed(name: str, tensor: torch.Tensor) -> NDArray[Any] | torch.Tensor:
    """Return a tensor as a feed of a model, which reads it in place.

    Raises:
        InputError: a gradient would be needed, or the tensor has no plain elements in memory.
    """
    if tensor.requires_grad and torch.is_grad_enabled():
        raise InputError(
            f'input "{name}" requires a gradient, and a compiled model has none',
            hint="run under torch.no_grad()",
        )
    if tensor.layout is not torch.strided:
        raise InputError(f'input "{name}" is {tensor.layout}', hint="give tensor.to_dense()")
    tensor = tensor.detach()
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):
        # Memory of a device, elements that NumPy lacks, or ones that are conjugated lazily.
        return tensor.resolve_neg().resolve_conj()


def tensor_of(array: NDArray[Any]) -> torch.Tensor:
    """Return a tensor that shares the memory of a result."""
    code = _NOT_OF_NUMPY.get(array.dtype.name)
    if code is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.uint8 if array.itemsize == 1 else np.uint16)).view(code)


_NOT_OF_NUMPY = {
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "float8_e5m2": torch.float8_e5m2,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
}
"""Element types by the names of those of `ml_dtypes`, which PyTorch does not take from NumPy."""
