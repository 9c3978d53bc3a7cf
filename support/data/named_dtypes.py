"""Numpy dtypes by name, independent of the compiler's IR."""

from __future__ import annotations

from typing import Any

import numpy as np


def named_dtype(name: str) -> np.dtype[Any]:
    """Return a dtype of numpy or `ml_dtypes` by name; raise TypeError if there is none."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        if not hasattr(ml_dtypes, name):
            raise
        return np.dtype(getattr(ml_dtypes, name))
