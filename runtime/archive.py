"""The `.tcm` file of a model: a container, whose kind of target writes and reads what is in it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from tcopt.runtime.container import read_container
from tcopt.runtime.whole_program import WholeProgram
from tcopt.support.errors import InputError
from tcopt.support.files import open_output
from tcopt.support.json_facts import FactError
from tcopt.support.target_registry import TARGETS, target_named


def write_archive(path: Path, program: WholeProgram) -> None:
    """Write a program; the file appears whole or not at all.

    Raises:
        InputError: the folder does not exist or is not writable.
    """
    with open_output(path) as stream:
        write_program(stream, program)


def write_program(stream: BinaryIO, program: WholeProgram) -> None:
    """Write a program to a stream that is empty."""
    target_named(program.kind).write(stream, program)


def program_bytes(program: WholeProgram) -> bytes:
    """The bytes of the file of a program."""
    stream = BytesIO()
    write_program(stream, program)
    return stream.getvalue()


def program_from(data: bytes) -> WholeProgram:
    """Load the program of `program_bytes`; raises as `read_program`."""
    with NamedTemporaryFile(suffix=".tcm") as stream:
        stream.write(data)
        stream.flush()
        return read_program(Path(stream.name))


def read_program(path: Path, *, mapped: bool = False) -> WholeProgram:
    """Load a program.

    Args:
        mapped: leave its weights in the file, see `load`.
    Raises:
        InputError: no such file, not a compiled model, damaged, or made for a target that is not
            known or another machine.
        ResourceError: it is larger than memory.
    """
    content = read_container(path, mapped=mapped)
    try:
        name = content.kind
    except FactError as error:
        raise InputError(f"{path} is not a compiled model: {error}") from None
    if name not in TARGETS:
        raise InputError(
            f"{path} was compiled for target '{name}', which is not known here",
            hint=f"known targets: {', '.join(TARGETS)}; another one comes with a plugin",
        )
    return TARGETS[name].read(path, content)
