"""Calibration data: supported forms, and errors for others."""

from __future__ import annotations

import numpy as np
import pytest

from tcopt.quantization.data import samples_of
from tcopt.runtime.specs import TensorSpec
from tcopt.support.errors import InputError

_F32 = np.dtype(np.float32)
_INPUTS = [TensorSpec("x", (2, 3), _F32), TensorSpec("n", (1,), np.dtype(np.int64))]
_X, _N = np.ones((2, 3), np.float32), np.ones(1, np.int64)


def test_an_array_is_one_run_or_has_runs_along_an_axis() -> None:
    assert len(samples_of({"x": _X, "n": _N}, _INPUTS)) == 1
    assert len(samples_of([{"x": _X, "n": _N}] * 3, _INPUTS)) == 3
    stacked = samples_of({"x": np.stack([_X] * 4), "n": np.stack([_N] * 4)}, _INPUTS)
    assert [run["x"].shape for run in stacked] == [(2, 3)] * 4
    parts = samples_of({"x": np.tile(_X, (5, 1)), "n": np.tile(_N, 5)}, _INPUTS)
    assert [run["x"].shape for run in parts] == [(2, 3)] * 5


def test_an_open_extent_is_all_of_the_array_or_the_batch() -> None:
    inputs = [TensorSpec("x", ("batch", 3), _F32)]
    rows = np.ones((6, 3), np.float32)
    assert [run["x"].shape for run in samples_of({"x": rows}, inputs)] == [(6, 3)]
    assert [run["x"].shape for run in samples_of({"x": rows}, inputs, batch=2)] == [(2, 3)] * 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "there is no calibration data"),
        (None, "a mapping from input names to arrays, or a list of these, not NoneType"),
        (_X, "a list of these, not ndarray"),
        ([_X], "a list of these, not ndarray"),
        ({"x": _X}, "lacks 'n'"),
        ({"x": _X, "n": _N, "y": _X}, "has 'y', which the model does not have"),
        ({"x": _X.astype(np.float64), "n": _N}, "is float64, but the model expects float32"),
        (
            {"x": np.ones((2, 4), np.float32), "n": _N},
            r"shape \[2, 4\], but the model expects \[2, 3\]",
        ),
        ({"x": np.ones((3, 3), np.float32), "n": _N}, r"shape \[3, 3\]"),
        ({"x": np.ones((0, 3), np.float32), "n": _N}, "is empty"),
        ({"x": np.stack([_X] * 2), "n": _N}, "different numbers of runs: 2 for 'x', 1 for 'n'"),
        ({"x": np.array([[1, 2, 3], [4, np.nan, 6]], np.float32), "n": _N}, r"NaN at \[1, 1\]"),
        ({"x": np.array([[1, 2, np.inf], [4, 5, 6]], np.float32), "n": _N}, "first is infinity"),
    ],
)
def test_other_data_is_refused(data: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        samples_of(data, _INPUTS)  # pyright: ignore[reportArgumentType]
