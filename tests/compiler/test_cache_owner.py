"""Caches belong to their user: folder ownership, authorship of entries, untouchable files."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import tcopt
from models.network import Network
from tcopt.compiler import cache_owner
from tcopt.compiler.cache_owner import CacheWarning, obstacle, user_key
from tcopt.compiler.disk_store import DiskStore
from tcopt.compiler.kernel_cache import KernelCache
from tcopt.compiler.program_cache import wait_for_writers
from tcopt.support.remarks import collect_remarks
from tcopt.tools import tcopt_cache

KEY, OTHER = "0" * 40, "01" * 20


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TCOPT_CACHE", "1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "cache"


def model() -> bytes:
    net = Network("dense")
    x = net.input("x", [2, 8])
    return net.model(**{net.add("Softmax", net.gemm(x, 8, 40)): [2, 40]}).SerializeToString()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_folders_and_files_are_the_user_s_alone(folder, tmp_path):
    before = os.umask(0)
    try:
        tcopt.compile(model())
        wait_for_writers()
    finally:
        os.umask(before)
    folders = [folder, *(p for p in folder.rglob("*") if p.is_dir())]
    files = [p for p in folder.rglob("*") if p.is_file()]
    assert len(files) > 2 and {mode(p) for p in folders} == {0o700}
    key = tmp_path / "state" / "tcopt" / "cache.key"
    assert {mode(p) for p in (*files, key)} == {0o600} and folder not in key.parents


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("bits", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(folder, bits, capsys):
    folder.mkdir()
    folder.chmod(bits)
    cache_owner._told.clear()
    with pytest.warns(CacheWarning, match="others may write to it"):
        assert not tcopt.compile(model()).program.cached
    with collect_remarks() as remarks, warnings.catch_warnings():
        warnings.simplefilter("error")  # The warning is issued once only.
        tcopt.compile(model())
    assert any(r.by == "cache" and "chmod 700" in r.message for r in remarks)
    assert not list(folder.iterdir())
    assert tcopt_cache.main([]) == 1 and "not used: others" in capsys.readouterr().out


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    store = KernelCache(folder)
    store.put(KEY, b"kernel")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "belongs to user" in (obstacle(folder) or "")
    with pytest.warns(CacheWarning):
        assert KernelCache(folder).get(KEY) is None
    folder.parent.joinpath("file").write_text("")
    assert obstacle(folder.parent / "file") == "it is not a folder"


def test_entries_of_another_key_are_not_read(folder, tmp_path, monkeypatch):
    tcopt.compile(model())
    wait_for_writers()
    assert tcopt.compile(model()).program.cached
    kept = shutil.copytree(folder, tmp_path / "copy")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(kept))
    again = tcopt.compile(model()).program
    assert not again.cached and again.kernels_compiled


def test_an_entry_in_the_place_of_another_is_none(folder):
    store = KernelCache(folder)
    store.put(KEY, b"one")
    store.put(OTHER, b"other")
    os.replace(store.path(OTHER), store.path(KEY))
    assert store.get(KEY) is None
    # An entry of another cache is rejected too.
    store.put(KEY, b"one")
    programs = DiskStore(folder, ".program", 1 << 20)
    os.replace(store.path(KEY), programs.path(KEY))
    assert programs.get(KEY) is None


def test_another_whole_program_in_the_place_of_one_is_not_loaded(folder, tmp_path):
    """Its digest matches its content, but only the user's own compiles can sign an entry."""
    other = tmp_path / "other.tcm"
    net = Network("dense", seed=1)
    x = net.input("x", [2, 8])
    made = net.model(**{net.add("Softmax", net.gemm(x, 8, 40)): [2, 40]})
    tcopt.compile(made, cache=False).save(other)
    first = tcopt.compile(model())
    wait_for_writers()
    (place,) = folder.rglob("*.program")
    shutil.copy(other, place)
    again = tcopt.compile(model())
    assert not again.program.cached
    feeds = {"x": np.ones((2, 8), np.float32)}
    np.testing.assert_array_equal(first.run(feeds)[0], again.run(feeds)[0])


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(folder, tmp_path, kind):
    store = KernelCache(folder)
    store.put(KEY, b"one")
    place = store.path(KEY)
    if kind == "link":
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.unlink()
        os.mkfifo(place) if kind == "pipe" else place.mkdir()
    assert store.get(KEY) is None


def test_clear_touches_its_own_files_only(folder, tmp_path, capsys):
    store = KernelCache(folder)
    store.put(KEY, b"one")
    outside = tmp_path / "outside"
    outside.mkdir()
    kept = [
        outside / ("a" * 38 + ".kernel"),
        outside / "tcopt-x.part",
        folder / "notes.kernel",
        folder / "00" / "my notes.kernel",
        folder / "00" / "download.part",
        folder / "src" / ("b" * 38 + ".kernel"),
    ]
    for path in kept:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        os.utime(path, (0, 0))
    (folder / "ab").symlink_to(outside)
    (folder / "00" / ("c" * 38 + ".kernel")).symlink_to(kept[0])
    abandoned = folder / "00" / "tcopt-abandoned.part"
    abandoned.write_text("")
    os.utime(abandoned, (0, 0))
    assert tcopt_cache.main(["clear"]) == 0
    assert "kernels: 1 entries removed" in capsys.readouterr().out
    assert all(path.read_text() == "mine" for path in kept)
    assert not store.path(KEY).exists() and not abandoned.exists()


@pytest.mark.parametrize("fault", ["mode", "size", "link"])
def test_a_key_that_others_may_know_is_not_used(folder, tmp_path, fault, monkeypatch):
    assert user_key() is not None
    path = tmp_path / "state" / "tcopt" / "cache.key"
    monkeypatch.setattr(cache_owner, "_keys", {})
    cache_owner._told.clear()
    if fault == "mode":
        path.chmod(0o644)
    elif fault == "size":
        path.write_bytes(b"short")
    else:
        path.rename(tmp_path / "key")
        path.symlink_to(tmp_path / "key")
    with pytest.warns(CacheWarning, match="the key file"):
        assert user_key() is None
    tcopt.compile(model())
    wait_for_writers()
    assert not list(folder.rglob("*.*"))
