"""Keeps a run of measurements going: a process that hangs or dies is replaced by another one.

After a fault of a kernel a device refuses everything from its process, and a kernel that does not
end holds it up for good. The measuring process notes the row that it is at; whatever ends it, that
row becomes an error, and another process goes on after it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpus.rows import Rows

FINISHED = 0
LOST = 75
"""Exit code of a process whose device refuses everything; its rows say why."""

PATIENCE = 120.0
"""Seconds that one row may take."""

MOST_STARTS = 20
_POLL_S = 0.2


def note_path(output: Path) -> Path:
    """The file in which the measuring process notes the row that it is at."""
    return output.with_name(output.name + ".now")


def note(output: Path, key: str) -> None:
    """Note the row that is measured from now on; an empty key is none."""
    note_path(output).write_text(json.dumps({"key": key, "since": time.time()}))


def supervise(command: Sequence[str], output: Path, patience: float = PATIENCE) -> int:
    """Run a command that measures until it has finished.

    Args:
        command: resumes the rows of `output`, and notes where it is.
        patience: seconds that one row may take.
    Returns:
        The exit code of the last process.
    """
    code = FINISHED
    for _ in range(MOST_STARTS):
        note(output, "")
        process = subprocess.Popen(command, start_new_session=True)
        try:
            reason = _wait(process, output, patience)
        finally:
            # Its compiling processes would outlive it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        at = _noted(output)["key"]
        note_path(output).unlink(missing_ok=True)
        if code == FINISHED or not (at or code == LOST):
            break
        if at:
            error = reason or f"the process ended with {code}"
            Rows(output, resume=True).add(at, {**_facts(at), "error": error})
            print(f"{at}: {error}; going on with another process", file=sys.stderr, flush=True)
    return code


def _facts(key: str) -> dict[str, Any]:
    """The facts of a row that its key has."""
    names = ("group", "case", "dtype", "batch", "variant", "side")
    return dict(zip(names, key.split("/"), strict=False))


def _wait(process: subprocess.Popen[bytes], output: Path, patience: float) -> str:
    """Wait for the end of a process; why it has to be ended, or nothing."""
    while process.poll() is None:
        time.sleep(_POLL_S)
        now = _noted(output)
        if now["key"] and time.time() - now["since"] > patience:
            return f"took more than {patience:g} s"
    return ""


def _noted(output: Path) -> dict[str, Any]:
    try:
        return json.loads(note_path(output).read_text())
    except (OSError, ValueError):
        # It is being written.
        return {"key": "", "since": time.time()}
