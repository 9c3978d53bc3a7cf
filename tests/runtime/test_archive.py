"""Saved models: what is written is read again, and what is no saved model says so."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tcopt
from models import convolutional
from models.light_models import random_inputs
from models.network import Network
from tcopt.backends.llvm.host import host_target, named_target
from tcopt.runtime import Model, load
from tcopt.support.errors import InputError, TcoptError


@pytest.fixture(scope="module")
def original() -> Model:
    return tcopt.compile(convolutional.residual_net())


@pytest.fixture(scope="module")
def saved(original, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "net.tcm"
    original.save(path)
    return path


def rewritten(source: Path, path: Path, **members: bytes | None) -> Path:
    """A copy of an archive with some members replaced (dots as `__`) or left out."""
    changes = {name.replace("__", "."): data for name, data in members.items()}
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = changes.get(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return path


def with_facts(source: Path, path: Path, **facts: object) -> Path:
    """A copy of an archive whose description says otherwise."""
    with zipfile.ZipFile(source) as archive:
        described = json.loads(archive.read("model.json"))
    return rewritten(source, path, model__json=json.dumps({**described, **facts}).encode())


def test_a_loaded_model_computes_the_same(original, saved):
    loaded = load(saved)
    feeds = random_inputs(convolutional.residual_net())
    np.testing.assert_array_equal(loaded.run(feeds)[0], original.run(feeds)[0])
    assert loaded.inputs == original.inputs and loaded.outputs == original.outputs
    assert loaded.program.report == original.program.report
    assert loaded.program.workspace_bytes == original.program.workspace_bytes


def test_another_process_can_load_it(original, saved, tmp_path):
    feeds = random_inputs(convolutional.residual_net())
    np.savez(tmp_path / "feeds.npz", **feeds)
    program = (
        "import sys, numpy, tcopt\n"
        "model = tcopt.load(sys.argv[1])\n"
        "numpy.save(sys.argv[3], model.run(dict(numpy.load(sys.argv[2])))[0])\n"
    )
    arguments = [saved, tmp_path / "feeds.npz", tmp_path / "out.npy"]
    subprocess.run([sys.executable, "-c", program, *map(str, arguments)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), original.run(feeds)[0])


def test_a_loaded_model_can_be_saved_again(saved, tmp_path):
    load(saved).save(tmp_path / "again.tcm")
    assert (tmp_path / "again.tcm").read_bytes() == saved.read_bytes()


def test_saving_twice_writes_the_same_file(original, saved, tmp_path):
    original.save(tmp_path / "again.tcm")
    assert (tmp_path / "again.tcm").read_bytes() == saved.read_bytes()


def test_weights_start_at_a_page(saved):
    program = load(saved).program
    assert isinstance(program.weights.base, np.memmap) or isinstance(program.weights, np.memmap)
    assert program.weights.ctypes.data % 64 == 0
    with zipfile.ZipFile(saved) as archive:
        assert archive.testzip() is None
        assert {i.compress_type for i in archive.infolist()} == {zipfile.ZIP_STORED}


def test_models_without_weights(tmp_path, rng):
    net = Network("plain")
    model = tcopt.compile(net.model(**{net.add("Relu", net.input("x", [5])): [5]}))
    model.save(str(tmp_path / "plain.tcm"))
    x = rng.standard_normal(5).astype(np.float32)
    np.testing.assert_array_equal(load(tmp_path / "plain.tcm").run({"x": x})[0], np.maximum(x, 0))


def test_an_old_file_is_replaced_whole(original, saved, tmp_path):
    path = tmp_path / "net.tcm"
    path.write_bytes(b"something else")
    original.save(path)
    assert path.read_bytes() == saved.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["net.tcm"]


def test_saving_where_nothing_can_be_written(original, tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        original.save(tmp_path / "no" / "such" / "folder.tcm")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot write"):
        original.save(tmp_path / "folder")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


# Files that are no saved models.


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*no\.tcm"):
        load(tmp_path / "no.tcm")
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", bytes(1000)])
def test_other_files(tmp_path, content):
    (tmp_path / "x.tcm").write_bytes(content)
    with pytest.raises(InputError, match="not a compiled model"):
        load(tmp_path / "x.tcm")


def test_other_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.tcm", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InputError, match="not a compiled model"):
        load(tmp_path / "x.tcm")


@pytest.mark.parametrize("member", ["model__json", "code/0__o", "weights__bin"])
def test_missing_members(saved, tmp_path, member):
    path = rewritten(saved, tmp_path / "x.tcm", **{member: None})
    with pytest.raises(InputError, match="not a compiled model"):
        load(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "{", "3", '{"format": 1}'])
def test_descriptions_that_are_none(saved, tmp_path, text):
    path = rewritten(saved, tmp_path / "x.tcm", model__json=text.encode())
    with pytest.raises(InputError):
        load(path)


@pytest.mark.parametrize(
    "facts",
    [
        {"inputs": [{"name": "x"}]},
        {"inputs": 3},
        {"inputs": [{"name": "x", "shape": [1], "dtype": "float33"}]},
        {"externals": ["no_such_function_anywhere"]},
        {"workspace_bytes": "many"},
        {"workspace_bytes": -5},
        {"outputs": None},
    ],
)
def test_descriptions_with_wrong_entries(saved, tmp_path, facts):
    with pytest.raises(TcoptError):
        load(with_facts(saved, tmp_path / "x.tcm", **facts))


def test_other_formats_and_machines(saved, tmp_path):
    with pytest.raises(InputError, match="format 99") as caught:
        load(with_facts(saved, tmp_path / "x.tcm", format=99))
    assert "compile the model again" in (caught.value.hint or "")
    other = "cortex-a72" if host_target().triple.startswith("x86_64") else "haswell"
    facts = named_target(other).facts()
    with pytest.raises(InputError, match=f"compiled for {other}, this machine is") as caught:
        load(with_facts(saved, tmp_path / "y.tcm", target=facts))
    assert "on this machine" in (caught.value.hint or "")


def test_truncated_files(saved, tmp_path):
    data = saved.read_bytes()
    for length in (10, 100, len(data) // 2, len(data) - 30, len(data) - 1):
        (tmp_path / "x.tcm").write_bytes(data[:length])
        with pytest.raises(InputError, match="not a compiled model"):
            load(tmp_path / "x.tcm")


def test_damaged_members(saved, tmp_path):
    """A checksum tells of damage to code, description and weights."""
    with zipfile.ZipFile(saved) as archive:
        places = {i.filename: (i.header_offset, i.file_size) for i in archive.infolist()}
    data = saved.read_bytes()
    for name in ("model.json", "code/0.o"):
        offset, size = places[name]
        damaged = bytearray(data)
        damaged[offset + 60 + size // 2] ^= 0xFF
        (tmp_path / "x.tcm").write_bytes(damaged)
        with pytest.raises(InputError, match="not a compiled model"):
            load(tmp_path / "x.tcm")


def test_damage_anywhere_is_an_error_or_harmless(saved, tmp_path):
    """Random bytes in headers never end in anything but an error of ours."""
    chosen = random.Random(0)
    data = saved.read_bytes()
    for _ in range(40):
        damaged = bytearray(data)
        for _ in range(3):
            # Headers are at the start and the end.
            place = chosen.choice([chosen.randrange(60), len(data) - 1 - chosen.randrange(300)])
            damaged[place] = chosen.randrange(256)
        (tmp_path / "x.tcm").write_bytes(damaged)
        try:
            load(tmp_path / "x.tcm")
        except TcoptError:
            continue
