"""The `.tcm` file of a model: a container whose content is written and read by its target kind."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, BinaryIO

from tcopt.runtime.container import read_container
from tcopt.runtime.whole_program import WholeProgram
from tcopt.support.errors import InputError
from tcopt.support.files.access import open_output
from tcopt.support.files.json_facts import FactError
from tcopt.support.registries.target_registry import TARGETS, target_named

if TYPE_CHECKING:
    from tcopt.runtime.model import Model


def write_archive(path: Path, program: WholeProgram) -> None:
    """Write a program atomically.

    Raises:
        InputError: the folder does not exist or is not writable.
    """
    with open_output(path) as stream:
        write_program(stream, program)


def write_program(stream: BinaryIO, program: WholeProgram) -> None:
    """Write a program to an empty stream."""
    target_named(program.kind).write(stream, program)


def program_bytes(program: WholeProgram) -> bytes:
    """Return the program's saved form as bytes."""
    stream = BytesIO()
    write_program(stream, program)
    return stream.getvalue()


def program_from(data: bytes) -> WholeProgram:
    """Load the program from the bytes of `program_bytes`; raises the errors of `read_program`."""
    with NamedTemporaryFile(suffix=".tcm") as stream:
        stream.write(data)
        stream.flush()
        return read_program(Path(stream.name))


def read_program(path: Path, *, mapped: bool = False) -> WholeProgram:
    """Load a program.

    Args:
        mapped: map its weights from the file instead of reading them, see `load`.
    Raises:
        InputError: no such file, not a compiled model, damaged, or made for an unknown target or
            another machine.
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
            hint=f"known targets: {', '.join(TARGETS)}; plugins may add others",
        )
    return TARGETS[name].read(path, content)


def restored(
    kind: type[Model], data: bytes, threads: int | None, fixed_by: dict[str, str]
) -> Model:
    """Restore a pickled model, which is native code like a saved model."""
    model = kind.of(program_from(data))
    model.threads = threads
    model.fixed_by.update(fixed_by)
    return model
