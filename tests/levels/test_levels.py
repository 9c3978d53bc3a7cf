"""A sample of `make levels`: each kind of integer model, and detection of faults."""

from __future__ import annotations

import ctypes

import numpy as np
import onnx.parser
import pytest

import tcopt
from levels.compare import difference, findings, levels
from levels.guarded import GuardedBytes, OutsideError, run_guarded
from levels.integer_models import feeds_of, integer_model


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("seed", range(12, 18))
def test_all_cpus_give_the_same_integers(seed: int) -> None:
    model = integer_model(seed)
    assert findings(model, feeds_of(model, seed), levels(), exact=True) == []


def test_checks_and_random_keys_have_buffers() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        f (float[8] x, int64[3] i) => (float[3] y, float[2] z) {
          y = Gather (x, i)
          z = RandomUniform <shape = [2]> ()
        }""")
    feeds = {"x": np.arange(8, dtype=np.float32), "i": np.array([7, 0, -2])}
    assert findings(model, feeds, levels(), exact=True) == []


def test_what_is_written_beside_a_buffer_is_noticed() -> None:
    """An entry point that writes one byte past an output."""
    model = integer_model(2)
    program = tcopt.compile(model).program
    feeds = list(feeds_of(model, 2).values())
    run_guarded(program, feeds, 0)
    entry, place = program.entry, len(program.inputs)

    class Faulty:
        threads = 1

        def __call__(self, arguments: ctypes.Array) -> None:
            entry(arguments)
            size = program.outputs[0].dtype.itemsize * int(np.prod(program.outputs[0].shape))
            ctypes.c_uint8.from_address(arguments[place] + size).value ^= 1

    program._entry = Faulty()
    with pytest.raises(OutsideError):
        run_guarded(program, feeds, 0)


def test_guarded_bytes_end_at_a_page() -> None:
    place = GuardedBytes(100, 4)
    assert (place.address + 100) % 4096 == 0
    assert place.is_intact()
    place.release()
    place = GuardedBytes(100, 64)
    assert place.address % 64 == 0
    ctypes.c_uint8.from_address(place.address + 100).value = 0
    assert not place.is_intact()
    place.release()


def test_differences_are_told() -> None:
    one = np.array([1, 2, 3], np.int8)
    assert difference(one, one, True) == ""
    assert "1 of 3 integers differ, by up to 7, first at (1,)" in difference(
        one, np.array([1, 9, 3], np.int8), True
    )
    real = np.array([1.0, np.inf, np.nan], np.float32)
    assert difference(real, real.copy(), True) == ""
    assert "NaN" in difference(real, np.array([1.0, np.inf, 0], np.float32), True)
    assert "infinite" in difference(real, np.array([1.0, 5, np.nan], np.float32), True)
    assert "differs" in difference(real, np.array([1.1, np.inf, np.nan], np.float32), True)
