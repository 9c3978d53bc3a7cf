"""Several OpenCL devices in a process, and tensors that stay on them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx.parser
import pytest

import tcopt
from machines.opencl_device import needs_device
from tcopt.runtime.device import opencl
from tcopt.runtime.device.opencl import opencl_device
from tcopt.support.errors import InputError, UnsupportedError

pytestmark = needs_device
X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.fixture(scope="module", autouse=True)
def devices() -> Iterator[list[Any]]:
    """Two devices, of which one is a part of the other."""
    cl: Any = pytest.importorskip("pyopencl")
    kinds = cl.device_partition_property
    whole: Any = opencl._devices()[0]
    found = [whole, *whole.create_sub_devices([kinds.BY_COUNTS, 1, kinds.BY_COUNTS_LIST_END])]
    opencl_device.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl, "_devices", lambda: found)
        yield found
    opencl_device.cache_clear()


@cache
def model() -> tcopt.Model:
    text = "(float[4, 6] x, float[4, 6] z) => (float[4, 6] s) { s = Add(x, z) }"
    head = '<ir_version: 10, opset_import: ["" : 21]>'
    return tcopt.compile(onnx.parser.parse_model(f"{head} f {text}"), "opencl")


def test_devices_have_numbers_and_names(devices: list[Any]) -> None:
    assert opencl_device() is opencl_device(0) is opencl_device(devices[0].name[:5])
    platform = devices[0].platform
    assert opencl_device(platform.version) is opencl_device(platform.name.upper())
    assert opencl_device(1) is not opencl_device(0)
    for which in (len(devices), -1, "no device is called so"):
        with pytest.raises(UnsupportedError, match="no OpenCL device like"):
            opencl_device(which)


def test_a_model_runs_on_the_device_that_it_names() -> None:
    results: list[Any] = []
    for device in (0, 1):
        model().device = device
        assert model().session().device is opencl_device(device)
        (s,) = model().run({"x": X, "z": X}, on_device=True)
        results += model().run({"x": s, "z": X}, on_device=True)
        np.testing.assert_array_equal(results[-1].read(), 3 * X)
    with pytest.raises(InputError, match=r'input "x".*OpenCL device 0.*OpenCL device 1'):
        model().run({"x": results[0], "z": X})


def test_results_are_written_to_given_memory() -> None:
    session = model().session()
    given, host = session.outputs["s"], np.zeros((4, 12), np.float32)
    assert model().run({"x": X, "z": X}, out={"s": given})[0] is given
    np.testing.assert_array_equal(given.read(), 2 * X)
    model().run({"x": given, "z": X}, out={"s": given})
    np.testing.assert_array_equal(np.asarray(given), 3 * X)
    model().run({"x": X, "z": X}, out={"s": host[:, ::2]})
    np.testing.assert_array_equal(host[:, ::2], 2 * X)


def test_other_libraries_do_not_share_its_memory() -> None:
    (s,) = model().run({"x": X, "z": X}, on_device=True)
    assert s.__dlpack_device__()[0] == 4 and not hasattr(s, "__cuda_array_interface__")
    with pytest.raises(BufferError):
        s.__dlpack__()
    np.testing.assert_array_equal(np.from_dlpack(s, device="cpu"), 2 * X)
    with pytest.raises(InputError, match="no CUDA streams"):
        model().run({"x": X, "z": X}, stream=1)
