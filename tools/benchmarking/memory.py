"""Peak memory of compiling and of running a model, each in a separate process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import BackendError
from tcopt.support.processes.child_process import ChildDied, ChildError, ChildProcess
from tcopt.support.processes.serving import Answer, Facts, Server


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
        given = json.loads(json.dumps(dict(options), default=vars))
        compiling = {"source": source, "target": target, "options": given, "output": compiled}
        return {
            "bare": _peak({}),
            "compile": _peak(compiling),
            "run": _peak({"model": compiled, "feeds": inputs}),
        }


def _peak(request: Facts) -> int:
    # A cached program would hide the memory of compiling.
    child = ChildProcess(__name__, environment={"TCOPT_CACHE": "0"}, quiet=True)
    try:
        return child.ask(request)[0]["peak"]
    except (ChildError, ChildDied) as error:
        raise BackendError(f"measuring memory failed: {error.message}") from None
    finally:
        child.stop()


def start(server: Server) -> Answer:
    """Return the function that compiles or runs a model in a child process."""
    import tcopt.runtime  # noqa: F401

    return _answer


def _answer(facts: Facts, parts: list[memoryview]) -> Facts:
    if "source" in facts:
        _compile(**facts)
    elif "model" in facts:
        _run(**facts)
    # Not getrusage, whose value starts at the memory of the parent process.
    with open("/proc/self/status", encoding="ascii") as status:
        (line,) = (line for line in status if line.startswith("VmHWM"))
    return {"peak": int(line.split()[1]) * 1024}


def _compile(source: str, target: str, options: dict[str, Any], output: str) -> None:
    import tcopt
    from tcopt.frontends.onnx.model.limits import ModelLimits

    if "limits" in options:
        options["limits"] = ModelLimits(**options["limits"])
    tcopt.compile(source, target, **options).save(output)


def _run(model: str, feeds: str) -> None:
    from tcopt.runtime import load

    loaded, arrays = load(model), dict(np.load(feeds))
    for _ in range(3):
        loaded.run(arrays)
