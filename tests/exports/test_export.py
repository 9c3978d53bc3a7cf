"""The script that creates the stored models, if torch is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from exports import stored
from exports.running import TOLERANCE, interpreted, worst_error

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")


def test_script_stores_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from exports.export import main

    monkeypatch.setattr(stored, "FOLDER", tmp_path)
    assert main(["lstm"]) == 0
    assert stored.stored_models() == ["lstm.dynamo.18", "lstm.legacy.14"]
    for name in stored.stored_models():
        assert worst_error(stored.load(name), interpreted) <= TOLERANCE
