"""Linking of shared libraries, with the system's C compiler or a cross compiler."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tcopt.backends.llvm.machine.host import host_target
from tcopt.support.errors import BackendError
from tcopt.support.files.access import as_path, write_output
from tcopt.support.machines.cpu_target import CpuTarget

_NATIVE = (("cc",), ("gcc",), ("clang",))
_OPTIONS = ("-lm", "-lpthread")
# Keep the library loaded after dlclose, because the pool's threads run its code.
_STAY = "-Wl,-z,nodelete"


def linkers(target: CpuTarget) -> list[tuple[str, ...]]:
    """Return the commands that can link for a target, in order of preference."""
    if target.machine == host_target().machine:
        return list(_NATIVE)
    cross = "clang", f"--target={target.triple}", "-fuse-ld=lld"
    return [(f"{target.machine}-linux-gnu-gcc",), cross]


def find_linker(target: CpuTarget) -> tuple[str, ...] | None:
    """Return the first linker of a target that is installed."""
    for command in linkers(target):
        if shutil.which(command[0]):
            return command
    return None


def link_library(
    objects: Sequence[bytes], path: str | Path, target: CpuTarget | None = None
) -> None:
    """Link object code to a shared library, which is written completely or not at all.

    Args:
        target: the target of the code, by default this machine.
    Raises:
        BackendError: there is no C compiler for the target, or it fails.
        InputError: the path is not writable.
    """
    place = as_path(path)
    write_output(place, linked_library(objects, target, place.name))


def linked_library(
    objects: Sequence[bytes], target: CpuTarget | None = None, name: str = "library.so"
) -> bytes:
    """Return the bytes of a shared library.

    Args:
        target: the target of the code, by default this machine.
        name: the name recorded in the library and used in messages.
    Raises:
        BackendError: there is no C compiler for the target, or it fails.
    """
    target = target or host_target()
    command = find_linker(target)
    if command is None:
        names = " or ".join(names[0] for names in linkers(target))
        raise BackendError(
            f"linking a shared library for {target.triple} needs a C compiler, and none was found",
            hint=f"install {names}, or write an object file instead",
        )
    is_darwin = "darwin" in target.triple
    options = (*_OPTIONS, f"-Wl,-install_name,@rpath/{name}" if is_darwin else _STAY)
    with tempfile.TemporaryDirectory() as folder:
        files: list[str] = []
        for number, data in enumerate(objects):
            file = Path(folder) / f"{number}.o"
            file.write_bytes(data)
            files.append(str(file))
        # A private folder, unlike the destination of the library.
        library = Path(folder) / "library.so"
        done = subprocess.run(
            [*command, "-shared", "-o", str(library), *files, *options],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if not done.returncode:
            return library.read_bytes()
    last = done.stderr.strip().splitlines()[-1:]
    raise BackendError(f"{command[0]} failed to link {name}: {' '.join(last)}")
