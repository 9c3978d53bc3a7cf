"""Files are written atomically, and special files are never replaced."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tcopt.support.errors import InputError
from tcopt.support.files.access import (
    as_path,
    is_replaced,
    open_file,
    open_output,
    open_outputs,
    write_output,
)

NAMES = ("net.h", "net.a", "net.so")


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_appears_when_it_is_whole(tmp_path):
    place = tmp_path / "a.bin"
    with open_output(place) as stream:
        stream.write(b"one")
        stream.flush()
        assert not place.exists()
    assert place.read_bytes() == b"one" and names_in(tmp_path) == ["a.bin"]


def test_an_error_leaves_what_was_there(tmp_path):
    place = tmp_path / "a.bin"
    place.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), open_output(place) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert place.read_bytes() == b"old" and names_in(tmp_path) == ["a.bin"]


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    place = tmp_path / "a.bin"
    place.write_bytes(b"old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_output(place, b"new")
    assert place.read_bytes() == b"old" and names_in(tmp_path) == ["a.bin"]


def test_the_folder_is_written_to_the_disk_after_the_file(tmp_path, monkeypatch):
    synced: list[bool] = []
    original = os.fsync

    def watched(descriptor):
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    write_output(tmp_path / "a.bin", b"new")
    assert synced == [False, True]


def test_temporary_names_cannot_be_guessed(tmp_path):
    seen: set[str] = set()
    for _ in range(3):
        with open_output(tmp_path / "a.bin") as stream:
            (name,) = {n for n in names_in(tmp_path) if n != "a.bin"}
            stream.write(b"x")
        seen.add(name)
    assert len(seen) == 3 and all("a.bin" not in name for name in seen)


def test_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        write_output(tmp_path / "new", b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o600)
    with open_output(tmp_path / "new") as stream:
        # A private file's replacement is never readable by others, not even briefly.
        (part,) = {n for n in names_in(tmp_path) if n != "new"}
        assert stat.S_IMODE((tmp_path / part).stat().st_mode) == 0o600
        stream.write(b"y")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "other").write_bytes(b"precious")
    for target in ("other", "nothing"):
        link = tmp_path / "link"
        link.symlink_to(target)
        write_output(link, b"mine")
        assert not link.is_symlink() and link.read_bytes() == b"mine"
        assert (tmp_path / "other").read_bytes() == b"precious"
        assert names_in(tmp_path) == ["link", "other"]
        link.unlink()


def test_folders_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("folder", "link", "no/such/place", "x" * 300):
        with pytest.raises(InputError, match="cannot write"):
            write_output(tmp_path / name, b"x")
    assert names_in(tmp_path) == ["folder", "link"] and not names_in(tmp_path / "folder")


@pytest.mark.parametrize("place", [None, 3, "", "a\0b", b"", "\ud800", ["a"]])
def test_what_is_no_path(place):
    with pytest.raises(InputError, match="path"):
        as_path(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_write_protected_file_is_kept(tmp_path):
    place = tmp_path / "a.bin"
    place.write_bytes(b"old")
    place.chmod(0o444)
    with pytest.raises(InputError, match="write-protected"):
        write_output(place, b"new")
    assert place.read_bytes() == b"old"


# Devices, pipes and descriptors.


def test_devices_are_written_to_and_stay_devices(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    for place in (Path("/dev/null"), tmp_path / "link"):
        write_output(place, b"gone")
        assert stat.S_ISCHR(os.stat(place).st_mode) and not is_replaced(place)
    assert (tmp_path / "link").is_symlink() and names_in(tmp_path) == ["link"]


def test_a_full_device():
    with pytest.raises(InputError, match="No space left on device"):
        write_output("/dev/full", b"x")


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="this pipe has no reader"):
        write_output(pipe, b"x")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    for _ in range(1000):
        try:
            write_output(pipe, b"x" * 100_000)
            break
        except InputError:
            threading.Event().wait(0.01)
    reader.join()
    assert read == [b"x" * 100_000] and stat.S_ISFIFO(os.lstat(pipe).st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_continues_where_it_is(tmp_path, name):
    access = "tcopt.support.files.access"
    program = f"from {access} import write_output; write_output({name!r}, 'two\\n')"
    command = f'echo one; {sys.executable} -c "{program}"; echo three'
    for redirect in (f"> {tmp_path / 'out'}", f"| cat > {tmp_path / 'out'}"):
        subprocess.run(["sh", "-c", f"({command}) {redirect}"], check=True)
        assert (tmp_path / "out").read_text() == "one\ntwo\nthree\n"
    assert names_in(tmp_path) == ["out"]


def test_sockets_are_refused(tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        with pytest.raises(InputError, match="not a file"):
            write_output(tmp_path / "socket", b"x")
    assert names_in(tmp_path) == ["socket"]


# Several files that belong together.


def write_all(folder: Path, content: bytes) -> None:
    with open_outputs([folder / name for name in NAMES]) as streams:
        for stream in streams:
            stream.write(content)


def test_files_that_belong_together_take_their_places_together(tmp_path):
    write_all(tmp_path, b"one")
    with (
        pytest.raises(ZeroDivisionError),
        open_outputs([tmp_path / n for n in NAMES]) as (first, *_),
    ):
        first.write(b"two")
        raise ZeroDivisionError
    assert {(tmp_path / n).read_bytes() for n in NAMES} == {b"one"}
    assert names_in(tmp_path) == sorted(NAMES)


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("links", [False, True])
def test_a_place_that_cannot_be_taken_gives_back_the_others(
    tmp_path, monkeypatch, failing, old, links
):
    if old:
        write_all(tmp_path, b"one")
    original, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise OSError(errno.EIO, "broken")
        original(source, target)

    def no_link(*_, **__):
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "replace", replace)
    if not links:
        monkeypatch.setattr(os, "link", lambda s, *_, **__: os.lstat(s) and no_link())
    with pytest.raises(InputError, match="broken"):
        write_all(tmp_path, b"two")
    assert {(tmp_path / n).read_bytes() for n in names_in(tmp_path)} == ({b"one"} if old else set())
    assert names_in(tmp_path) == (sorted(NAMES) if old else [])


def test_two_writers_at_once_leave_the_files_of_one(tmp_path):
    def writer(content: bytes) -> None:
        for _ in range(30):
            write_all(tmp_path, content)

    threads = [threading.Thread(target=writer, args=(c,)) for c in (b"one", b"two", b"three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(tmp_path / n).read_bytes() for n in NAMES}) == 1
    assert names_in(tmp_path) == sorted(NAMES)


# Tests of reading files.


def test_only_files_are_read(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    with open_file(tmp_path / "link") as stream:
        assert stream.read() == b"abc"
    for place in (tmp_path, tmp_path / "pipe", "/dev/zero", tmp_path / "none"):
        with pytest.raises(OSError):
            open_file(place)
    with pytest.raises(OSError):
        open_file(tmp_path / "link", follow=False)
