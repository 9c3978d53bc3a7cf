"""Hostile models of every kind: one clear message, bounded time and memory, no foreign file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcopt
from models.hostile import KINDS, bombs, ints, model_of, node
from tcopt.frontends.onnx import import_model
from tcopt.frontends.onnx.model.limits import ModelLimits, parse_limits
from tcopt.runtime.program import Program
from tcopt.support.errors import ImportModelError, InputError, ResourceError

TESTS = Path(__file__).resolve().parents[2]
MESSAGE = re.compile(
    r"tcopt-compile: (bad-input|bad-model|unsupported|out-of-memory): \S", re.ASCII
)
MESSAGE_LENGTH = 30_000
MODEL_SECONDS = 30
"""CPU time, which grows on a busy machine. Most models take some milliseconds."""

Case = dict[str, Any]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Case]]:
    """Outcomes of the models, by kind; all are compiled in one process."""
    folder = tmp_path_factory.mktemp("hostile")
    done = subprocess.run(
        [sys.executable, "-m", "models.hostile_driver", str(folder)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
            "TCOPT_CACHE_DIR": str(tmp_path_factory.mktemp("cache")),
            "TCOPT_CACHE": "1",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[Case]] = {}
    for line in done.stdout.splitlines():
        case = json.loads(line)
        found.setdefault(case["kind"], []).append(case)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [kind.__name__ for kind in KINDS])
def test_hostile_models(kind: str, cases: dict[str, list[Case]]) -> None:
    """Each model compiles and runs, or is rejected with one message."""
    assert cases[kind]
    for case in cases[kind]:
        text = case["text"]
        assert case["code"] in (0, 1), case
        assert not case["opened"], case
        assert case["seconds"] < MODEL_SECONDS, case
        if case["code"] == 1:
            assert MESSAGE.match(text), case
            assert "Traceback" not in text and "internal error" not in text, case
            assert len(text) < MESSAGE_LENGTH, case["name"]
            assert text.replace("\n", "").isprintable(), case
        if case["name"].startswith("sound"):
            assert case["code"] == 0, case


REFUSED = {
    "files": ["empty", "text", "zeros", "random", "cut at 8/16", "a folder", "a pipe"],
    "names": ["self loop", "cycle", "undefined", "defined twice", "input twice", "weight twice"],
    "weights": ["weight raw too short", "weight raw too long", "weight negative", "weight huge"],
    "attributes": ["Conv no groups", "Conv no stride", "Conv huge dilation", "MaxPool no stride"],
    "bombs": [
        "ConstantOfShape",
        "Expand",
        "Tile",
        "Range 0 9223372036854775807 1",
        "Loop that doubles",
        "Loops in Loops",
        "function bomb",
        "function of itself",
        "huge input",
    ],
}


@pytest.mark.nightly
@pytest.mark.parametrize("kind", REFUSED)
def test_these_are_refused(kind: str, cases: dict[str, list[Case]]) -> None:
    codes = {case["name"]: case["code"] for case in cases[kind]}
    assert {name: codes[name] for name in REFUSED[kind]} == dict.fromkeys(REFUSED[kind], 1)


@pytest.mark.nightly
def test_no_file_outside_the_folder_is_read(cases: dict[str, list[Case]]) -> None:
    """All external data of the hostile models is rejected."""
    assert [case["name"] for case in cases["external_files"] if case["code"] != 1] == []


def test_limits_are_options() -> None:
    """A larger limit accepts the model, and the message names the limit."""
    model = dict(bombs())["Expand"]
    with pytest.raises(ImportModelError, match="raise the limit tensor-bytes=17179869184"):
        import_model(model)
    import_model(model, limits=parse_limits(["tensor-bytes=10000000000000"])).verify()
    with pytest.raises(ImportModelError, match="raise the limit nodes=10"):
        import_model(dict(bombs())["Ifs in Ifs"], limits=ModelLimits(nodes=10))
    for text, message in (
        ("size=3", "there is no limit 'size'; limits are tensor-bytes, nodes,"),
        ("nodes=-1", "'nodes=-1' is not a limit; write 'nodes=1000'"),
        ("nodes", "'nodes' is not a limit"),
    ):
        with pytest.raises(InputError, match=message):
            parse_limits([text])


def test_running_out_of_memory() -> None:
    """Insufficient memory for results is reported as such."""
    model = tcopt.compile(model_of(node("Expand", "x s"), weights={"s": ints(2**10, 1, 1)}))
    program = model.program
    assert isinstance(program, Program)
    program._pools[0].size = 2**60
    with pytest.raises(ResourceError, match="running the model needs more memory"):
        model.run({"x": np.zeros((2, 3), np.float32)})
