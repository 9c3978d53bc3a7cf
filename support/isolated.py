"""Python processes that the project starts: they import what this one would, and nothing else.

They run in Python's isolated mode, in a folder of the package: neither the current folder, nor
the folder of the user's script, nor the environment's variables for Python name places to import
from. Modules of the standard library come first, whatever else is found elsewhere. The package is
the one of this process, however it was found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The folder of the package, where such a process runs."""

_BOOT = """import json, sys
given = json.loads(sys.argv.pop(1))
sys.path[:] = given["path"]
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("tcopt", given["file"], submodule_search_locations=[given["root"]])
sys.modules["tcopt"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["tcopt"])
"""


def isolated_command(code: str) -> list[str] | None:
    """The command that runs code, which may import the package; None where there is no Python.

    What the caller appends to it is in `sys.argv` from 1 on.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    flags = ["-B"] if sys.flags.dont_write_bytecode else []
    given = {"path": import_path(), "root": str(ROOT), "file": str(ROOT / "__init__.py")}
    return [sys.executable, "-I", *flags, "-c", _BOOT + code, json.dumps(given)]


def child_environment(**changes: str) -> Mapping[str, str]:
    """The environment of such a process."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **changes}


def import_path() -> list[str]:
    """Where such a process imports from, the standard library first."""
    skipped = {"", _current_folder(), _script_folder()}
    found = [entry for entry in sys.path if os.path.isabs(entry) and entry not in skipped]
    own = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
    packages = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))

    def is_later(entry: str) -> bool:
        return not entry.startswith(own) or entry.startswith(packages) or "-packages" in entry

    return sorted(found, key=is_later)


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # It was removed.
        return ""


def _script_folder() -> str:
    """Python puts the folder of a script in front of all others."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.abspath(script)) if script else ""


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a child, whatever it is doing, and close the pipes to it."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            # What was still to be written is nobody's any more.
            with suppress(OSError):
                stream.close()
