"""Saved models round-trip, and other files are rejected with an error."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import tcopt
from models import convolutional
from models.light_models import random_inputs
from models.network import Network
from models.saved_models import changes_of, rewritten, with_facts
from tcopt.backends.llvm.machine.host import host_target, named_target
from tcopt.runtime import Model, load
from tcopt.runtime.container import FORMAT, read_container
from tcopt.support.errors import InputError, TcoptError, UnsupportedError
from tcopt.support.machines.cpu_target import CpuTarget


@pytest.fixture(scope="module")
def original() -> Model:
    return tcopt.compile(convolutional.residual_net())


@pytest.fixture(scope="module")
def saved(original, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "net.tcm"
    original.save(path)
    return path


def test_a_loaded_model_computes_the_same(original, saved):
    loaded = load(saved)
    feeds = random_inputs(convolutional.residual_net())
    np.testing.assert_array_equal(loaded.run(feeds)[0], original.run(feeds)[0])
    assert loaded.inputs == original.inputs and loaded.outputs == original.outputs
    assert loaded.program.report == original.program.report
    assert loaded.program.workspace_bytes == original.program.workspace_bytes


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_models_are_pickled_and_copied(original, copied):
    original.threads = 1
    again = copied(original)
    feeds = random_inputs(convolutional.residual_net())
    np.testing.assert_array_equal(again.run(feeds)[0], original.run(feeds)[0])
    assert again.threads == 1 and again.inputs == original.inputs


def test_a_model_without_a_program_is_not_pickled():
    net = Network("open")
    x = net.input("x", ["n", 8])
    model = tcopt.compile(net.model(**{net.add("Tanh", x): ["n", 8]}))
    with pytest.raises(UnsupportedError, match="shapes"):
        pickle.dumps(model)


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


def test_weights_are_aligned(saved):
    for mapped in (False, True):
        assert load(saved, mapped=mapped).program.weights.ctypes.data % 64 == 0


def test_mapped_weights_compute_the_same(original, saved):
    feeds = random_inputs(convolutional.residual_net())
    loaded = load(saved, mapped=True)
    assert not loaded.program.weights.flags.writeable
    np.testing.assert_array_equal(loaded.run(feeds)[0], original.run(feeds)[0])


def test_a_loaded_model_does_not_need_its_file(original, saved, tmp_path):
    """Changing or deleting the file does not affect a loaded model."""
    path = tmp_path / "net.tcm"
    path.write_bytes(saved.read_bytes())
    feeds = random_inputs(convolutional.residual_net())
    loaded = load(path)
    path.write_bytes(b"")
    np.testing.assert_array_equal(loaded.run(feeds)[0], original.run(feeds)[0])


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


# Files that are not saved models.


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


def test_files_of_earlier_versions(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.tcm", "w") as archive:
        archive.writestr("model.json", "{}")
    with pytest.raises(InputError, match="earlier versions") as caught:
        load(tmp_path / "x.tcm")
    assert "compile the model again" in (caught.value.hint or "")


def test_a_copy_made_by_these_tests_is_a_saved_model(original, saved, tmp_path):
    feeds = random_inputs(convolutional.residual_net())
    loaded = load(with_facts(saved, tmp_path / "x.tcm"))
    np.testing.assert_array_equal(loaded.run(feeds)[0], original.run(feeds)[0])


@pytest.mark.parametrize("number", [0, 1, -1])
def test_missing_parts(saved, tmp_path, number):
    """A saved model without its entry, a kernel or its weights is rejected."""
    count = len(read_container(saved).parts)
    with pytest.raises(TcoptError):
        load(rewritten(saved, tmp_path / "x.tcm", drop=number % count))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"{",
        b"3",
        b'"x"',
        b"\xff\xfe",
        b'{"kind": 1}',
        b'{"kind": "cpu", "parts": []}',
        b'{"kind": "cpu", "kind": "cpu"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": ' + b"[" * 50 + b"]" * 50 + b"}",
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
    ],
    ids=range(18),
)
def test_descriptions_that_are_none(saved, tmp_path, text):
    path = rewritten(saved, tmp_path / "x.tcm", text=text)
    with pytest.raises(InputError, match="not a compiled model"):
        load(path)


FREE = ("name", *(each.name for each in fields(CpuTarget)))
"""Target facts used only by cost models, and names."""


def test_descriptions_with_wrong_entries(saved, tmp_path):
    """Each member of the description, however deep, is replaced by values of every kind."""
    path, described = tmp_path / "x.tcm", read_container(saved).facts.values()
    for place, changed in changes_of(described):
        try:
            load(rewritten(saved, path, text=json.dumps(changed).encode()))
        except TcoptError as error:
            assert len(str(error)) < 2000
            continue
        assert place[0] in ("report", "externals") or place[-1] in FREE, place


@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize(
    "change",
    [
        {"shape": [2**40, 2**40]},
        {"shape": [1] * 1000},
        {"shape": [1, 2, 3]},
        {"shape": [-1]},
        {"shape": ["n"]},
        {"dtype": "float64"},
        {"dtype": "object"},
        {"dtype": "f4,i8"},
        {"dtype": "str"},
        {"dtype": "float33"},
        {"dims": ["a"]},
        {"kind": "tensors"},
        {"kind": "sequence of tensors"},
        {"any_rank": True},
    ],
    ids=str,
)
def test_tensors_that_do_not_fit_the_code(saved, tmp_path, side, change):
    described = read_container(saved).facts.values()
    specs = [{**described[side][0], **change}, *described[side][1:]]
    with pytest.raises(TcoptError):
        load(with_facts(saved, tmp_path / "x.tcm", **{side: specs}))


def test_sizes_that_do_not_fit_the_code(saved, tmp_path):
    described = read_container(saved).facts.values()
    sizes, workspace = described["parts"], described["workspace_bytes"]
    for facts in (
        {"workspace_bytes": workspace - 64},
        {"workspace_bytes": workspace + 64},
        {"workspace_bytes": 2**48},
        {"workspace_bytes": 2**60},
        {"parts": sizes[:-1]},
        {"parts": [*sizes, 0]},
        {"parts": [*sizes[:-1], sizes[-1] - 64]},
        {"parts": [*sizes[:-1], 2**62]},
        {"parts": [*sizes[:-1], sizes[-1] - 64, 0]},
        {"inputs": []},
        {"externals": ["no_such_function_anywhere"]},
        {"externals": ["a b"]},
    ):
        with pytest.raises(TcoptError):
            load(with_facts(saved, tmp_path / "x.tcm", **facts))


def test_other_formats_and_machines(saved, tmp_path):
    data = bytearray(saved.read_bytes())
    data[12] = 99
    (tmp_path / "x.tcm").write_bytes(data)
    with pytest.raises(InputError, match="format 99") as caught:
        load(tmp_path / "x.tcm")
    assert "compile the model again" in (caught.value.hint or "")
    other = "cortex-a72" if host_target().triple.startswith("x86_64") else "haswell"
    facts = named_target(other).facts()
    with pytest.raises(InputError, match=f"compiled for {other}, this machine is") as caught:
        load(with_facts(saved, tmp_path / "y.tcm", target=facts))
    assert "on this machine" in (caught.value.hint or "")


def test_targets_with_fewer_facts(original, saved, tmp_path):
    """Files of earlier versions lack facts that only cost models use."""
    target = host_target()
    facts = {"triple": target.triple, "cpu": target.cpu, "features": target.features}
    loaded = load(with_facts(saved, tmp_path / "x.tcm", target=facts))
    assert [spec.name for spec in loaded.inputs] == [spec.name for spec in original.inputs]


def test_truncated_files(saved, tmp_path):
    data = saved.read_bytes()
    for length in (0, 10, 32, 100, len(data) // 2, len(data) - 30, len(data) - 1):
        (tmp_path / "x.tcm").write_bytes(data[:length])
        with pytest.raises(InputError, match="not a compiled model"):
            load(tmp_path / "x.tcm")
    (tmp_path / "x.tcm").write_bytes(data + b"x")
    with pytest.raises(InputError, match="something follows"):
        load(tmp_path / "x.tcm")


@pytest.mark.parametrize("mapped", [False, True])
def test_every_flipped_bit_is_refused(saved, tmp_path, mapped):
    """Bits are flipped in the header, description, code, padding, weights and digest."""
    data, chosen = saved.read_bytes(), random.Random(0)
    path = tmp_path / "x.tcm"
    places = [*range(64), *range(len(data) - 40, len(data)), *chosen.sample(range(len(data)), 400)]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            load(path, mapped=mapped)


def test_bytes_that_change_places_are_found(saved, tmp_path):
    data = bytearray(saved.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64], data[-128:-64] = data[-128:-64], data[middle : middle + 64]
    (tmp_path / "x.tcm").write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        load(tmp_path / "x.tcm")


# Paths that are not files.


def test_pipes_devices_and_links(saved, tmp_path):
    os.mkfifo(tmp_path / "pipe.tcm")
    for place in (tmp_path / "pipe.tcm", "/dev/zero", "/dev/null", "/proc/self/mem"):
        with pytest.raises(InputError):
            load(place)
    (tmp_path / "link.tcm").symlink_to(saved)
    load(tmp_path / "link.tcm")
    for place in (None, 3, "", "a\0b", b"\xff\xfe"):
        with pytest.raises(InputError):
            load(place)


def test_files_larger_than_memory(tmp_path):
    """Sparse files take no disk space, so their size does not justify allocating memory."""
    size = 2**42
    with (tmp_path / "x.tcm").open("wb") as stream:
        stream.write(struct.pack("<12sIQQ", b"tcopt-model\n", FORMAT, 100, size))
        stream.truncate(size)
    with pytest.raises(TcoptError, match="memory"):
        load(tmp_path / "x.tcm")


def test_libraries_are_not_loaded(tmp_path):
    with pytest.raises(InputError, match="shared library"):
        load(tmp_path / "x.so")
