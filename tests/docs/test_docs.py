"""Documentation snippets run, and generated pages are up to date.

A fenced block is executed if it is marked `python` (all blocks of a page in one namespace, in
order) or `sh` (each line that starts with `$` must exit 0). A block marked `mlir` is parsed by
`tcopt`; mark fragments `mlir-part` or `text`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from running.forks import ForkServer

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
NEEDED = {"pytorch.md": "torch"}
"""Optional packages that the snippets of a page need."""
GENERATED = {"dialects.md", "passes.md", "api.md"}
_FENCE = re.compile(r"^```([\w-]*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(page: Path, language: str) -> list[tuple[int, str]]:
    """Yield the line number and text of each fenced block of a language."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 2, match[2])
        for match in _FENCE.finditer(text)
        if match[1] == language
    ]


def program(page: Path) -> str:
    """Return the Python blocks of a page as one program, with the line numbers of the page."""
    text = ""
    for line, code in snippets(page, "python"):
        text += "\n" * (line - 1 - text.count("\n")) + code
    return text


def pages_with(language: str) -> list[Path]:
    pages = (page for page in PAGES if page.is_file() and page.name not in GENERATED)
    return [page for page in pages if snippets(page, language)]


def environment() -> dict[str, str]:
    """Return an environment with this interpreter's scripts first on the path."""
    folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join([folder, os.environ["PATH"]])}


Run = Callable[..., None]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run a command that must succeed: `run(command, folder, input)`."""
    with ForkServer() as server:

        def run(command: list[str], folder: Path, text: str | None = None) -> None:
            done = server.run(command, cwd=folder, environment=environment(), input=text)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

        yield run


@pytest.mark.nightly(only=["tuning.md", "quantization.md"])
@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.name)
def test_python_snippets_run(page: Path, tmp_path: Path, run: Run) -> None:
    """Each page's Python blocks run as one program."""
    if page.name in NEEDED:
        pytest.importorskip(NEEDED[page.name], reason=f"{NEEDED[page.name]} is not installed")
    script = tmp_path / f"{page.stem}_snippets.py"
    script.write_text(program(page), encoding="utf-8")
    run([sys.executable, str(script)], tmp_path)


@pytest.mark.parametrize("page", pages_with("sh"), ids=lambda page: page.name)
def test_shell_snippets_run(page: Path, tmp_path: Path, run: Run) -> None:
    """Run lines that start with `$` in one folder that contains the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    lines = [line for _, code in snippets(page, "sh") for line in code.splitlines()]
    commands = [line[2:] for line in lines if line.startswith("$ ") and "make " not in line]
    if commands:
        run(["sh", "-ec", "\n".join(commands)], tmp_path)


@pytest.mark.parametrize("page", pages_with("mlir"), ids=lambda page: page.name)
def test_mlir_snippets_parse(page: Path, tmp_path: Path, run: Run) -> None:
    """Complete IR examples parse and verify."""
    text = "// -----\n".join(code for _, code in snippets(page, "mlir"))
    run(["tcopt", "--split-input-file"], tmp_path, text)


def test_generated_pages_are_current(run: Run) -> None:
    """Generated pages and the stub of the graph dialect match the definitions (make docs)."""
    run([sys.executable, "-m", "tcopt.tools.gen_docs", "--check"], ROOT)
