"""The examples run, and files and output shown on pages are accurate.

A fenced block marked `console` contains commands, each after `$ `, followed by their output; `...`
matches any text. A command without output shown may print anything. A command that shows a tool's
error must exit 1, all others 0. The commands of a page run in order, in one folder that contains
the examples. A `python` or `mlir` block whose first line names a file of the examples, as in `#
examples/custom_pass.py`, shows a part of that file.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from running.examples import is_nightly
from running.forks import ForkServer

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "examples" / "README.md"])
# Slow tools, whose pages are checked by the nightly tests.
SLOW = {"tcopt-tune", "tcopt-quantize"}
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHOWN_FILE = re.compile(
    r"^```\w+\n(?:#|//) (examples/[\w.]+)\n(.*?)^```", re.MULTILINE | re.DOTALL
)
_SUBSTITUTION = re.compile(r"\$\(([^)]*)\)")
_ERROR = re.compile(r"^tcopt(-\w+)?: ", re.MULTILINE)


def commands(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page's console blocks, each with the output shown."""
    found: list[tuple[str, str]] = []
    for block in _CONSOLE.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)
            assert command is not None
            found.append((command[0].replace("\\\n", "").strip(), part[command.end() :]))
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """Run the tools and scripts without starting Python for each."""
    with ForkServer() as server:
        yield server


def run(server: ForkServer, command: str, folder: Path) -> tuple[int, str]:
    """Return the exit status and output of one command."""
    command = _SUBSTITUTION.sub(lambda match: run(server, match[1], folder)[1].strip(), command)
    words = shlex.split(command, comments=True)
    if set("|<>;&$*") & set(command):
        words = ["sh", "-c", command]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = server.run(words, cwd=folder, environment={**os.environ, "PATH": path})
    return done.returncode, done.stdout + done.stderr


def matches(shown: str, printed: str) -> bool:
    """Whether the shown output matches the printed one, line by line with `...` as wildcard."""
    lines = [line.rstrip() for line in shown.strip("\n").splitlines()]
    patterns = [
        r"(?:.*\n)*?" if line.strip() == "..." else _line_pattern(line) + r"[ ]*\n"
        for line in lines
    ]
    return re.fullmatch("".join(patterns), printed.strip("\n") + "\n") is not None


def _line_pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("..."))


@pytest.mark.nightly(
    only=[
        "docs/tuning.md",
        "docs/quantization.md",
        "docs/adding_an_accelerator.md",
        "docs/benchmarking.md",
        "docs/accuracy.md",
        "docs/explain.md",
        "docs/checking.md",
    ]
)
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if commands(page)],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_consoles_show_what_happens(
    page: Path, tmp_path: Path, server: ForkServer, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command, shown in commands(page):
        if command.split()[0] in SLOW and not is_nightly(request.config):
            continue
        status, printed = run(server, command, tmp_path)
        expected = 1 if _ERROR.search(shown) else 0
        assert status == expected, f"{command}\n{printed}"
        assert not shown.strip() or matches(shown, printed), f"{command}\n{printed}"


def test_every_example_is_run() -> None:
    """The console of examples/README.md must run every script."""
    run_there = [command for command, _ in commands(ROOT / "examples" / "README.md")]
    for script in (ROOT / "examples").glob("*.py"):
        assert f"python examples/{script.name}" in run_there


def test_files_shown_are_the_files() -> None:
    for page in PAGES:
        for name, part in _SHOWN_FILE.findall(page.read_text(encoding="utf-8")):
            text = (ROOT / name).read_text(encoding="utf-8")
            for piece in part.strip("\n").split("\n...\n"):
                assert piece.strip("\n") in text, f"{page.name} shows other text than {name} has"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/*.md"):
        assert f"docs/{page.name}" in index, f"README.md does not name docs/{page.name}"
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}, which is not there"
