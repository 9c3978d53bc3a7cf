"""Isolated Python child processes, which import only what this process would.

They run in Python's isolated mode in the package's folder, so they do not import from the current
folder, the folder of the user's script, or the folders named by environment variables. The standard
library takes precedence. The package is the one of this process, wherever it was found.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
"""Root folder of the package, the working directory of child processes."""

_BOOT = """import json, sys
given = json.loads(sys.argv.pop(1))
sys.path[:] = given["path"]
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("tcopt", given["file"], submodule_search_locations=[given["root"]])
sys.modules["tcopt"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["tcopt"])
"""


def isolated_command(code: str) -> list[str] | None:
    """Return the command that runs code that may import the package; None without a Python.

    Arguments appended by the caller are `sys.argv[1:]`.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    flags = ["-B"] if sys.flags.dont_write_bytecode else []
    given = {"path": import_path(), "root": str(ROOT), "file": str(ROOT / "__init__.py")}
    return [sys.executable, "-I", *flags, "-c", _BOOT + code, json.dumps(given)]


def child_environment(**changes: str) -> Mapping[str, str]:
    """Return the environment of a child process."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **changes}


def import_path() -> list[str]:
    """Return the import path of a child process, with the standard library first."""
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
    except OSError:  # The current folder was removed.
        return ""


def _script_folder() -> str:
    """Return the folder of the script, which Python puts first in the import path."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.abspath(script)) if script else ""
