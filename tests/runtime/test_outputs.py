"""Memory of results is reused, but never while it is referenced."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcopt.runtime.outputs import OutputPool
from tcopt.runtime.program import pack_weights
from tcopt.runtime.specs import TensorSpec
from tcopt.support.machines.alignment import ALIGNMENT


def pool() -> OutputPool:
    return OutputPool(TensorSpec("y", (8, 100), np.dtype(np.float32)))


def test_arrays_have_shape_type_and_alignment() -> None:
    """The array has the output's type and shape, at an aligned address."""
    array = pool().take((8, 100))[0]
    assert (array.shape, array.dtype) == ((8, 100), np.dtype(np.float32))
    assert array.ctypes.data % ALIGNMENT == 0


def test_a_dropped_result_gives_its_memory_to_the_next() -> None:
    """Consecutive runs reuse the memory of a dropped result."""
    results = pool()
    address = results.take((8, 100))[0].ctypes.data
    assert all(results.take((8, 100))[0].ctypes.data == address for _ in range(3))


def test_results_in_use_are_left_alone() -> None:
    """Results or views that are kept alive share no memory with later results."""
    results = pool()
    kept = [results.take((8, 100))[0] for _ in range(4)]
    for number, array in enumerate(kept):
        array[:] = number
    views = [array[2:4, 10:20].T for array in kept]
    del kept, array
    for _ in range(4):
        results.take((8, 100))[0][:] = -1
    assert [float(view.min()) for view in views] == [0, 1, 2, 3]
    assert [float(view.max()) for view in views] == [0, 1, 2, 3]


def test_weights_are_released_as_they_are_packed() -> None:
    """The weights are never in memory twice."""
    values = {name: np.full((4, 8), name == "b", np.float32) for name in ("a", "b", "unused")}
    arrays = [weakref.ref(array) for array in values.values()]
    block = pack_weights({"b": (0, 128), "a": (192, 128)}, values, 320)
    np.testing.assert_array_equal(block.view(np.float32), [1] * 32 + [0] * 48)
    assert not values
    assert [array() for array in arrays] == [None] * 3


def resident_bytes(path: Path) -> int:
    """Return the bytes of a file that this process has in memory through mappings."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text(errors="replace").splitlines():
        if not line.split(" ", 1)[0].endswith(":"):
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1]) << 10
    return found


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
@pytest.mark.parametrize("mode", ["r", "c"])
def test_pages_of_mapped_weights_are_released_as_they_are_packed(tmp_path: Path, mode: Any) -> None:
    """A file is not in memory twice; a private mapping keeps what was written to it."""
    path = tmp_path / "weights"
    data = np.arange(1 << 16, dtype=np.uint32)
    path.write_bytes(data.tobytes())
    mapped = np.memmap(path, np.uint8, mode)
    table = mapped.view(np.uint32).reshape(256, 256)
    if mode == "c":
        table[0] = data[:256] = 7
    assert int(table.sum()) == int(data.sum())
    before = resident_bytes(path)
    block = pack_weights({"w": (0, data.nbytes)}, {"w": table}, data.nbytes)
    assert (resident_bytes(path) < before) == (mode == "r")
    np.testing.assert_array_equal(block.view(np.uint32), data)
    np.testing.assert_array_equal(table.reshape(-1), data)
