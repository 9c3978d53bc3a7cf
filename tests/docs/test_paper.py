"""docs/paper.md is what benchmarks/paper.py writes from the saved results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_generated_from_the_saved_results():
    # In a process of its own: the benchmarks have packages with names of the tests' own.
    command = [sys.executable, str(ROOT / "benchmarks" / "paper.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_every_figure_of_the_page_is_there():
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    names = [part.partition(")")[0] for part in text.split("](") if "paper_" in part[:12]]
    assert names
    assert all((ROOT / "docs" / name).is_file() for name in names)
