"""Randomly changed models compile and run, or raise a `TcoptError`: no other error, no crash.

`TCOPT_FUZZ_SECONDS` is the duration (5), `TCOPT_FUZZ_SEED` selects the examples (0).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import tcopt
from models.fuzzing import MODELS, example, outcome
from models.network import Network
from tcopt.support.errors import InputError

TESTS = Path(__file__).resolve().parents[2]
SECONDS = os.environ.get("TCOPT_FUZZ_SECONDS", "5")
SEED = os.environ.get("TCOPT_FUZZ_SEED", "0")


def test_changed_models() -> None:
    """In a separate process, as generated code may crash."""
    done = subprocess.run(
        [sys.executable, "-m", "models.fuzzing", SECONDS, SEED],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
        timeout=float(SECONDS) + 300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert " examples, " in done.stdout


def test_examples_are_the_same_for_the_same_number() -> None:
    assert example(3) == example(3) != example(4)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_unchanged_models_give_results(make) -> None:
    """The original models are valid, so that small changes stay interesting; their feeds may be
    rejected."""
    result = outcome(make().SerializeToString(), 0)
    assert result.startswith("[") or result == "bad-input"


def test_indices_outside_of_the_data() -> None:
    """A gather with an invalid index is rejected without damage."""
    net = Network("outside")
    x, i = net.input("x", [4, 5]), net.input("i", [6], TensorProto.INT64)
    model = net.model(**{net.add("Gather", x, i, axis=0): [6, 5]})
    data = np.arange(20, dtype=np.float32).reshape(4, 5)
    compiled = tcopt.compile(model, workers=0)
    for place in (4, -5, 2**63 - 1, -(2**63), 2**40):
        with pytest.raises(InputError, match="Gather"):
            compiled.run({"x": data, "i": np.array([0, 1, place, 2, 3, -4])})
    (rows,) = compiled.run({"x": data, "i": np.array([0, 1, -1, 2, 3, -4])})
    np.testing.assert_array_equal(rows, data[[0, 1, 3, 2, 3, 0]])


def test_places_of_what_is_not_zero_after_a_norm() -> None:
    """The count of indices is a register that changes under a condition without an else."""
    net = Network("places", seed=4)
    x = net.input("x", [1, 4, 8])
    y = net.add("NonZero", net.layer_norm(net.add("Add", x, x), 8))
    model = net.model(**{y: ["three", "count"]})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    value = np.random.default_rng(0).standard_normal((1, 4, 8)).astype(np.float32)
    (places,) = tcopt.compile(model, workers=0).run({"x": value})
    np.testing.assert_array_equal(places, np.argwhere(np.ones((1, 4, 8))).T)
