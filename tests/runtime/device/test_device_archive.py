"""Saved models for devices: their descriptions are validated; the tests need no device."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import tcopt
from models.saved_models import changes_of, rewritten, with_facts
from tcopt.runtime import load
from tcopt.runtime.container import read_container
from tcopt.support.errors import InputError, TcoptError, UnsupportedError

SMALL = """<ir_version: 10, opset_import: ["" : 21]>
small (float[4, 8] x, float[8, 8] w) => (float[4, 8] y) { z = MatMul(x, w)  y = Softmax(z) }"""

FREE = ("report", "inputs", "outputs", "steps", "workspace_bytes", "target", "max_threads")


@pytest.fixture(scope="module", params=["opencl", "cuda:sm_80"])
def saved(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "net.tcm"
    tcopt.compile(onnx.parser.parse_model(SMALL), request.param).save(path)
    return path


def test_what_is_loaded_is_what_was_saved(saved, tmp_path):
    load(saved).save(tmp_path / "again.tcm")
    assert (tmp_path / "again.tcm").read_bytes() == saved.read_bytes()
    assert [item.name for item in tmp_path.iterdir()] == ["again.tcm"]


_LOADED = """
import sys
from tcopt.runtime import load
model = load(sys.argv[1])
print(sorted({name.partition(".")[0] for name in sys.modules} & {"llvmlite", "onnx", "xdsl"}))
try:
    model.session()
except Exception as error:
    print(type(error).__name__)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"llvmlite", "onnx", "xdsl"}))
"""


def test_programs_load_without_the_compiler(saved):
    """Neither xDSL nor LLVM is imported, even without a device."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, str(saved)], capture_output=True, text=True, check=True
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("[")] == ["[]", "[]"]


def test_devices_have_no_libraries(saved, tmp_path):
    with pytest.raises(UnsupportedError, match="C library"):
        load(saved).save(tmp_path / "net.so")
    with pytest.raises(UnsupportedError, match="C library"):
        tcopt.export_kit(load(saved), tmp_path)
    with pytest.raises(InputError, match="cannot write"):
        load(saved).save("/dev/full")


def test_every_flipped_bit_is_refused(saved, tmp_path):
    data, chosen, path = saved.read_bytes(), random.Random(0), tmp_path / "x.tcm"
    for place in chosen.sample(range(len(data)), 200):
        damaged = bytearray(data)
        damaged[place] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            load(path)


@pytest.mark.nightly(every=2)
def test_descriptions_with_wrong_entries(saved, tmp_path):
    """Each member of the description, however deep, is replaced by values of every kind."""
    path, described = tmp_path / "x.tcm", read_container(saved).facts.values()
    for place, changed in changes_of(described):
        try:
            load(rewritten(saved, path, text=json.dumps(changed).encode()))
        except TcoptError:
            continue
        # Tensor types and shapes, and buffer offsets, may change if accesses stay in bounds. Target
        # facts are only displayed.
        assert place[0] in FREE or place[-1] == "name", place


def test_steps_stay_within_buffers(saved, tmp_path):
    described = read_container(saved).facts.values()
    (launch, *_) = (step for step in described["steps"] if "launch" in step)
    size = 4 * 8 * 4
    for step in (
        {**launch, "launch": "other"},
        {**launch, "grid": [1, 1]},
        {**launch, "grid": [0, 1, 1]},
        {**launch, "grid": [2**40, 1, 1]},
        {**launch, "block": [1024, 1024, 1]},
        {**launch, "arguments": [[99, 0]]},
        {**launch, "arguments": [[0, 2**40]]},
        {**launch, "arguments": [[0]]},
        {"copy": size + 1, "source": [0, 0], "target": [2, 0]},
        {"copy": size, "source": [0, 1], "target": [2, 0]},
        {"copy": size, "source": [0, 0], "target": [2, 1]},
        {"copy": -1, "source": [0, 0], "target": [2, 0]},
        {"copy": 1, "source": [-1, 0], "target": [2, 0]},
    ):
        with pytest.raises(InputError, match="not a compiled model"):
            load(with_facts(saved, tmp_path / "x.tcm", steps=[step]))
    load(
        with_facts(
            saved, tmp_path / "x.tcm", steps=[{"copy": size, "source": [0, 0], "target": [2, 0]}]
        )
    )
