"""The model that is compiled, as it was when it was first read.

A model with open shapes is compiled again for other shapes, and one whose shapes depend on data for
its later parts, perhaps much later: what was given then has to be what was given first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tcopt.compiler.content import Source, Stamp, hash_file, stamp
from tcopt.support.errors import InputError
from tcopt.support.files import as_path

if TYPE_CHECKING:
    from onnx import ModelProto

_HINT = (
    "compile it again; given as bytes, as in tcopt.compile(path.read_bytes()), a model needs its "
    "file no more"
)


class ModelSource:
    """A file, bytes or a decoded model, which does not change, or is found to have."""

    def __init__(self, source: object):
        self._value: Source
        self._given: Path | None = None
        self._marks: dict[Path, Stamp | None] = {}
        self._hashes: dict[Path, str | None] = {}
        if isinstance(source, bytes | bytearray | memoryview):
            self._value = bytes(source)
        elif isinstance(source, str | os.PathLike):
            self._given = as_path(source)
            self._value = Path(os.path.abspath(self._given))
            self._marks[self._value] = stamp(self._value)
        elif _is_model(source):
            self._value = cast("ModelProto", source)
        else:
            raise InputError(
                f"a model cannot be {type(source).__name__}",
                hint="give the path of a file, its bytes or a ModelProto",
            )

    @property
    def value(self) -> Source:
        """What to read the model from; a path as it was given, for messages, as long as it leads
        to the file: the working directory may change."""
        if self._given is not None and Path(os.path.abspath(self._given)) == self._value:
            return self._given
        return self._value

    @property
    def name(self) -> str:
        """Name of the file without its suffix; an empty string for a model in memory."""
        return "" if self._given is None else self._given.stem

    def keep(self) -> None:
        """Make sure that a decoded model stays as it is, whatever its owner does with it."""
        if not isinstance(self._value, bytes | str | Path):
            copy = type(self._value)()
            copy.CopyFrom(self._value)
            self._value = copy

    def read(self, files: Iterable[Path]) -> None:
        """Remember other files that were read for the model."""
        for path in files:
            if path not in self._marks:
                self._marks[path] = stamp(path)

    def hashed(self, content: str | None) -> None:
        """Remember the hash of the model, with which its file is compared if it seems changed."""
        if isinstance(self._value, Path):
            self._hashes.setdefault(self._value, content)

    def check(self, *, was_open: bool = False) -> None:
        """Check that all files are as they were.

        Args:
            was_open: they were open meanwhile: one that another took the place of was read as it
                was, one that was written into was not.
        Raises:
            InputError: one has changed, or is gone.
        """
        for path, mark in self._marks.items():
            found = stamp(path)
            if found == mark or mark is None:
                continue
            if was_open and (found is None or found[:2] != mark[:2]):
                continue
            if found is None:
                raise InputError(
                    f"{path} is gone, and the model has to be compiled from it once more",
                    hint=_HINT,
                )
            known = self._hashes.get(path)
            if known is None or hash_file(path) != known:
                raise InputError(
                    f"{path} has changed since the model was first compiled, and has to be "
                    "compiled once more",
                    hint=_HINT,
                )
            self._marks[path] = found


def _is_model(source: Any) -> bool:
    # By name: a program that is found in the cache has no need of onnx.
    return type(source).__name__ == "ModelProto" and hasattr(source, "CopyFrom")
