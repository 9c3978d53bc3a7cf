"""Paths and modules named in documentation, docstrings and comments exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."}
# Files that the pages on extending the project ask the reader to create.
ADDED = {"dialects/graph/elementwise/shrink.py", "schedules/rules/cpu/square_tiles.py"}
# Paths in backticks, or with a file suffix.
_PATH = re.compile(r"`([\w/.-]+/[\w/.]*)`|(?<![\w./:-])(\w+/[\w/]*\.(?:py|md|mlir|toml)\b)")
# Modules of the package in backticks, with or without its name, and what they define.
_MODULE = re.compile(r"`(?:tcopt\.)?(\w+)\.(?!py`)([\w.]+)`")


def texts() -> list[Path]:
    """Pages, and sources with docstrings, comments and messages."""
    folders = sorted(FOLDERS - {"src", "tests", "lit_tests"})
    found = [*ROOT.glob("*.md"), ROOT / "Makefile"]
    for suffix in ("md", "py"):
        found += [path for name in folders for path in (ROOT / name).rglob(f"*.{suffix}")]
    return found


def test_paths_in_texts_exist() -> None:
    missing: list[str] = []
    for page in texts():
        text = page.read_text(encoding="utf-8")
        for match in _PATH.finditer(text):
            path = match[1] or match[2]
            if path.partition("/")[0] not in FOLDERS or path in ADDED:
                continue
            if not (ROOT / path).exists():
                line = text.count("\n", 0, match.start()) + 1
                missing.append(f"{page.relative_to(ROOT)}:{line}: {path}")
    assert not missing, "\n".join(missing)


def test_modules_in_texts_exist() -> None:
    packages = {path.name for path in (ROOT / "src" / "tcopt").iterdir() if path.is_symlink()}
    packages.remove("torch")  # Texts name PyTorch's modules by the same name.
    missing = [
        f"{page.relative_to(ROOT)}: {match[0]}"
        for page in texts()
        for match in _MODULE.finditer(page.read_text(encoding="utf-8"))
        if match[1] in packages and not _is_defined(ROOT / match[1], match[2].split("."))
    ]
    assert not missing, "\n".join(missing)


def _is_defined(package: Path, names: list[str]) -> bool:
    """Whether a package has a module of this name, or one that mentions the name in it."""
    while names and (package / names[0]).is_dir():
        package, names = package / names[0], names[1:]
    module = package / "__init__.py"
    if names and (package / f"{names[0]}.py").is_file():
        module, names = package / f"{names[0]}.py", names[1:]
    text = module.read_text(encoding="utf-8")
    return not names or re.search(rf"\b{names[0]}\b", text) is not None


def test_added_files_are_new() -> None:
    for path in ADDED:
        assert (ROOT / path).parent.is_dir()
        assert not (ROOT / path).exists()
