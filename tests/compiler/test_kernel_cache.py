"""The kernel cache on disk: lookups, corruption, size limits, and concurrent processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import tcopt
from models.light_models import random_inputs
from models.network import Network
from tcopt.compiler.kernel_cache import KernelCache, user_programs
from tcopt.tools import tcopt_cache

KEYS = [f"{number:040x}" for number in range(20)]


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    return KernelCache(tmp_path / "cache")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for the compiles of one test."""
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "user"))
    return tmp_path / "user"


def small_net(size: int = 40) -> ModelProto:
    """A model with three kernels."""
    net = Network("small")
    x = net.input("x", [4, 30])
    y = net.add("Softmax", net.gemm(x, 30, size))
    return net.model(**{net.add("Transpose", y, perm=[1, 0]): [size, 4]})


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kernel"))


# Tests of the cache's store.


def test_what_is_stored_is_found(cache):
    assert cache.get(KEYS[0]) is None
    cache.put(KEYS[0], b"one")
    cache.put(KEYS[1], b"")
    assert (cache.get(KEYS[0]), cache.get(KEYS[1])) == (b"one", b"")
    cache.put(KEYS[0], b"two")
    assert cache.get(KEYS[0]) == b"two"
    assert cache.use().entries == 2 and cache.use().bytes > 0
    assert cache.clear() == 2 and cache.get(KEYS[0]) is None


@pytest.mark.parametrize("damage", [b"", b"tcopt-entry-1\n", b"\x00" * 500])
def test_damaged_entries_are_dropped(cache, damage):
    cache.put(KEYS[0], b"some kernel")
    (path,) = files_of(cache.folder)
    path.write_bytes(damage)
    assert cache.get(KEYS[0]) is None
    assert not path.exists()


def test_every_single_changed_byte_shows(cache):
    cache.put(KEYS[0], b"some kernel")
    (path,) = files_of(cache.folder)
    whole = path.read_bytes()
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        path.write_bytes(bytes(changed))
        assert cache.get(KEYS[0]) is None


def test_the_least_recently_used_go_first(tmp_path):
    cache = KernelCache(tmp_path, limit=10_000)
    for number, key in enumerate(KEYS[:9]):
        cache.put(key, bytes(1000))
        (path,) = tmp_path.rglob(f"{key[2:]}*")
        os.utime(path, (1000 + number, 1000 + number))
    assert cache.get(KEYS[0]) == bytes(1000)
    cache.put(KEYS[9], bytes(1000))
    cache.trim()
    left = [key for key in KEYS[:10] if cache.get(key) is not None]
    assert left == [KEYS[0], *KEYS[4:10]]
    assert cache.use().bytes <= cache.limit


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    cache = KernelCache(tmp_path / "file" / "cache")
    cache.put(KEYS[0], b"x")
    cache.trim()
    assert cache.get(KEYS[0]) is None
    assert cache.clear() == 0


def test_the_environment_names_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TCOPT_CACHE_SIZE", "3")
    monkeypatch.setenv("TCOPT_CACHE", "1")
    found = KernelCache.of_user()
    assert found is not None and (found.folder, found.limit) == (tmp_path, 3 << 18)
    programs = user_programs()
    assert programs is not None and (programs.folder, programs.limit) == (tmp_path, 9 << 18)
    monkeypatch.delenv("TCOPT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = KernelCache.of_user()
    assert found is not None and found.folder == tmp_path / "tcopt"
    monkeypatch.setenv("TCOPT_CACHE", "kernels")
    assert KernelCache.of_user() is not None and user_programs() is None
    monkeypatch.setenv("TCOPT_CACHE", "0")
    assert KernelCache.of_user() is None and user_programs() is None


def test_the_tool_shows_and_clears(cache, monkeypatch, capsys):
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(cache.folder))
    cache.put(KEYS[0], bytes(100_000))
    monkeypatch.setenv("TCOPT_CACHE", "1")
    programs = user_programs()
    assert programs is not None
    programs.put(KEYS[1], bytes(300_000))
    told = {
        "info": ["kernels: 1 entries, 0.1 MB", "programs: 1 entries, 0.3 MB"],
        "clear": ["kernels: 1 entries removed", "programs: 1 entries removed"],
    }
    for action, texts in told.items():
        assert tcopt_cache.main([action]) == 0
        shown = capsys.readouterr().out
        assert all(text in shown for text in texts)
    assert cache.use().entries == 0
    monkeypatch.setenv("TCOPT_CACHE", "off")
    assert tcopt_cache.main([]) == 0
    assert "turned off" in capsys.readouterr().out


# Tests of compiles that use the cache.


def test_a_second_compile_finds_every_kernel(folder):
    model = small_net()
    first, second = tcopt.compile(model), tcopt.compile(model)
    assert first.program.kernels_compiled > 2
    assert second.program.kernels_compiled == 0
    assert first.program.objects == second.program.objects
    feeds = random_inputs(model)
    for ours, theirs in zip(first.run(feeds), second.run(feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_another_model_shares_kernels(folder):
    model = small_net()
    whole = tcopt.compile(model).program.kernels_compiled
    # Other weights and node names give the same kernels.
    for node in model.graph.node:
        node.name = f"other_{node.name}"
    for weight in model.graph.initializer:
        weight.raw_data = weight.raw_data[4:] + weight.raw_data[:4]
    assert tcopt.compile(model).program.kernels_compiled == 0
    wider = small_net(50)
    assert 0 < tcopt.compile(wider).program.kernels_compiled <= whole


def test_damaged_kernels_are_compiled_again(folder):
    model = small_net()
    first = tcopt.compile(model)
    files = files_of(folder)
    for path in files[::2]:
        path.write_bytes(path.read_bytes()[:-1])
    for path in files[1::4]:
        path.unlink()
    second = tcopt.compile(model)
    assert 0 < second.program.kernels_compiled <= first.program.kernels_compiled
    assert first.program.objects == second.program.objects
    assert tcopt.compile(model).program.kernels_compiled == 0


def test_the_cache_can_be_turned_off(folder, monkeypatch):
    model = small_net()
    tcopt.compile(model, cache=False)
    assert not folder.exists()
    monkeypatch.setenv("TCOPT_CACHE", "0")
    tcopt.compile(model)
    assert not folder.exists()


def test_a_small_limit_is_kept(folder, monkeypatch):
    monkeypatch.setenv("TCOPT_CACHE_SIZE", "0")
    model = small_net()
    assert tcopt.compile(model).program.kernels_compiled > 0
    assert files_of(folder) == []
    assert tcopt.compile(model).program.kernels_compiled > 0


_COMPILE = """
import sys
sys.path[:0] = sys.argv[1:]
import tcopt
from test_kernel_cache import small_net
from models.light_models import random_inputs
model = small_net()
(result,) = tcopt.compile(model).run(random_inputs(model))
print(result.tobytes().hex())
"""


@pytest.mark.nightly
def test_processes_may_share_a_cache(folder):
    command = [sys.executable, "-c", _COMPILE, str(Path(__file__).parent), *sys.path]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]
    results = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0], results
    model = small_net()
    third = tcopt.compile(model)
    assert third.program.kernels_compiled == 0
    expected = third.run(random_inputs(model))[0].tobytes().hex()
    assert [out.decode().strip() for out, _ in results] == [expected, expected]
    assert not list(folder.rglob("*.part"))
