"""Tests that need an OpenCL device, PoCL for want of another."""

from __future__ import annotations

import pytest

from tcopt.runtime.device.opencl import opencl_device
from tcopt.support.errors import UnsupportedError

# As a part of the output's range. Both sides compute in float32 and sum in different orders;
# OpenCL's functions may be off by a few units in the last place.
TOLERANCE = 1e-5


def _has_device() -> bool:
    try:
        opencl_device()
    except UnsupportedError:
        return False
    return True


needs_device = pytest.mark.skipif(
    not _has_device(), reason="no OpenCL device; on Debian: apt-get install pocl-opencl-icd"
)
