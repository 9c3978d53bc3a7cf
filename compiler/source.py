"""The source of a compile: a model that must stay as it was when first read.

Models with open shapes are recompiled for other shapes, and models with data-dependent shapes are
compiled in stages, possibly much later. All these compiles must see the same model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tcopt.compiler.content import Stamp, hash_file, stamp
from tcopt.frontends.onnx.model.options import Source
from tcopt.support.errors import InputError
from tcopt.support.files.access import as_path

if TYPE_CHECKING:
    from onnx import ModelProto

_HINT = (
    "compile it again; given as bytes, as in tcopt.compile(path.read_bytes()), a model does not "
    "need its file any more"
)


class ModelSource:
    """A model as a file, bytes or a decoded message, whose later changes are detected."""

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
        """The model to read.

        A path is returned as the user gave it, for messages, unless the working directory has
        changed since.
        """
        if self._given is not None and Path(os.path.abspath(self._given)) == self._value:
            return self._given
        return self._value

    @property
    def name(self) -> str:
        """Name of the model's file without its suffix; empty for a model in memory."""
        return "" if self._given is None else self._given.stem

    def keep(self) -> None:
        """Copy a decoded model, so that later changes by the caller have no effect."""
        if not isinstance(self._value, bytes | str | Path):
            copy = type(self._value)()
            copy.CopyFrom(self._value)
            self._value = copy

    def read(self, files: Iterable[Path]) -> None:
        """Record other files that were read for the model."""
        for path in files:
            if path not in self._marks:
                self._marks[path] = stamp(path)

    def hashed(self, content: str | None) -> None:
        """Record the hash of the model, to check a file whose modification time has changed."""
        if isinstance(self._value, Path):
            self._hashes.setdefault(self._value, content)

    def check(self, *, was_open: bool = False) -> None:
        """Check that no file has changed.

        Args:
            was_open: whether the files were open in the meantime. Then a file that was replaced is
                fine, as its old content was read; one that was overwritten is not.
        Raises:
            InputError: a file has changed or is missing.
        """
        for path, mark in self._marks.items():
            found = stamp(path)
            if found == mark or mark is None:
                continue
            if was_open and (found is None or found[:2] != mark[:2]):
                continue
            if found is None:
                raise InputError(
                    f"{path} is missing, but it is needed to compile the model again",
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
    # Checked by name, as loading a cached program must not import onnx.
    return type(source).__name__ == "ModelProto" and hasattr(source, "CopyFrom")
