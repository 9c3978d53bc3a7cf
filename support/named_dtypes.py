"""Numpy dtypes by name; nothing here needs the compiler's IR."""

from __future__ import annotations

from typing import Any

import numpy as np


def named_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a name, of those that `ml_dtypes` adds too; TypeError if none."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        if not hasattr(ml_dtypes, name):
            raise
        return np.dtype(getattr(ml_dtypes, name))
