"""Run `tcopt-compile` on every hostile model in one process; print a JSON line for each.

    python -m models.hostile_driver FOLDER

Opened files are recorded: a model may only open files in its folder.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np

import tcopt
from models.hostile import KINDS, Hostile
from tcopt.tools import tcopt_compile

MEMORY_BYTES = 12 << 30
MODEL_SECONDS = 120
FORBIDDEN = ("/etc/passwd", "/dev/zero")


class OpenedFiles:
    """Recorder of opened files that a model must not open."""

    def __init__(self, base: Path):
        self.base = f"{base}/"
        self.folder = self.base
        self.wrong: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        outside = path.startswith(self.base) and not path.startswith(self.folder)
        if outside or path in FORBIDDEN or path.endswith("pipe"):
            self.wrong.append(path)


def main(folder: str) -> None:
    base = Path(folder).resolve()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    opened = OpenedFiles(base)
    for kind in KINDS:
        for number, (name, model) in enumerate(kind()):
            case = base / f"{kind.__name__}{number}"
            case.mkdir()
            opened.folder = str(base)
            path = _write(model, case)
            opened.folder = str(path if path.is_dir() else path.parent)
            opened.wrong = []
            faulthandler.dump_traceback_later(MODEL_SECONDS, exit=True)
            start = time.process_time()
            code, text = _compile(path, case, run=kind.__name__ != "bombs")
            seconds = time.process_time() - start
            faulthandler.cancel_dump_traceback_later()
            facts = {"kind": kind.__name__, "name": name, "code": code, "text": text}
            print(json.dumps({**facts, "seconds": seconds, "opened": opened.wrong}), flush=True)


def _write(model: Hostile, folder: Path) -> Path:
    if callable(model):
        return model(folder)
    path = folder / "m.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


def _compile(path: Path, folder: Path, *, run: bool) -> tuple[int | str, str]:
    """Return the exit code, or the uncaught exception, and stderr."""
    written = path.with_name("compiled.tcm") if not path.is_dir() else folder / "compiled.tcm"
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
        try:
            code: int | str = tcopt_compile.main(
                [str(path), "-o", str(written), "--limit", "nodes=5000"]
            )
            if code == 0 and run:
                model = tcopt.load(written)
                model.run({i.name: np.zeros(i.shape, i.dtype) for i in model.inputs})
        except BaseException as error:
            code = repr(error)
    return code, printed.getvalue()


if __name__ == "__main__":
    main(sys.argv[1])
