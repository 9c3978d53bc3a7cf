"""Peak memory of compiling and of running a model, each in a separate process."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import BackendError
from tcopt.support.processes.isolated import child_environment, isolated_command

_BARE = "import tcopt.runtime, numpy"
_COMPILE = """
import json, sys, tcopt
from tcopt.frontends.onnx.model.limits import Limits
source, target, options, output = sys.argv[1:]
options = json.loads(options)
if "limits" in options:
    options["limits"] = Limits(**options["limits"])
tcopt.compile(source, target, **options).save(output)
"""
_RUN = """
import sys, numpy, tcopt.runtime
model = tcopt.runtime.load(sys.argv[1])
feeds = dict(numpy.load(sys.argv[2]))
for _ in range(3):
    model.run(feeds)
"""
# Not getrusage, whose value starts at the memory of the parent process.
_REPORT = """
with open("/proc/self/status") as status:
    (line,) = (line for line in status if line.startswith("VmHWM"))
print(int(line.split()[1]) * 1024)
"""


def peak_memory(
    model: str | bytes,
    target: str,
    options: Mapping[str, Any],
    feeds: Mapping[str, NDArray[Any]],
) -> dict[str, int]:
    """Return the peak resident bytes of an interpreter that has loaded the runtime (`bare`), of
    compiling the model, and of running it.

    Args:
        model: an ONNX file, or its bytes.
        options: keyword arguments of `tcopt.compile`, as JSON values and dataclasses of them.
    Raises:
        BackendError: one of the processes failed, or this system has no /proc.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, compiled, inputs = (
            str(Path(folder) / name) for name in ("model.onnx", "model.tcm", "feeds.npz")
        )
        if isinstance(model, str):
            source = model
        else:
            Path(source).write_bytes(model)
        np.savez(inputs, **feeds)  # pyright: ignore[reportArgumentType]
        given = json.dumps(dict(options), default=vars)
        return {
            "bare": _peak(_BARE),
            "compile": _peak(_COMPILE, source, target, given, compiled),
            "run": _peak(_RUN, compiled, inputs),
        }


def _peak(script: str, *arguments: str) -> int:
    start = isolated_command(script + _REPORT)
    if start is None:
        raise BackendError("measuring memory needs a Python interpreter")
    # A cached program would hide the memory of compiling.
    environment = child_environment(TCOPT_CACHE="0")
    done = subprocess.run(
        [*start, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise BackendError(f"measuring memory failed: {' '.join(last)}")
    return int(done.stdout.split()[-1])
