"""Check the Python snippets of the documentation with pyright.

`PYTHONPATH=tests python tests/docs/check_types.py` is part of `make lint`. The snippets of a page
form one program, with the line numbers of the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from test_docs import NEEDED, ROOT, environment, pages_with, program


def main() -> int:
    """Write the programs to a temporary folder and run pyright on it."""
    config = {
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    with tempfile.TemporaryDirectory() as folder:
        for page in pages_with("python"):
            if page.name in NEEDED and find_spec(NEEDED[page.name]) is None:
                continue
            Path(folder, f"{page.stem}.py").write_text(program(page), encoding="utf-8")
        Path(folder, "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
        command = ["pyright", "--pythonpath", sys.executable, "-p", folder]
        return subprocess.run(command, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
