"""Weight files next to the text that names them.

In a file, `graph.weights = "net.safetensors"` is relative to the file's folder; in memory it is
relative to the working directory. Tools convert the path when reading and writing, and save a store
that exists only in memory next to the text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, StringAttr

from tcopt.support.files.access import as_path, is_replaced, open_outputs

if TYPE_CHECKING:
    from tcopt.dialects.graph.core.weights import WeightStore

_ATTRIBUTE = "graph.weights"
_SUFFIX = ".safetensors"


def find_weights(module: ModuleOp, text_file: Path) -> None:
    """Make the weight path of a parsed text relative to the working directory."""
    name = _file_named(module)
    if name is not None and not name.is_absolute():
        path = os.path.relpath(text_file.parent / name)
        module.attributes[_ATTRIBUTE] = StringAttr(path)


class TextOutput:
    """Output text with the weights that are only in memory, all written atomically.

    Args:
        path: output path; without one, or for a pipe or a device, no weights are written.
    """

    def __init__(self, path: str | None):
        self._path = None if path is None or path == "-" else as_path(path)
        self._keeps_weights = self._path is not None and is_replaced(self._path)
        self._stores: dict[Path, WeightStore] = {}

    @contextmanager
    def naming_weights(self, module: ModuleOp) -> Iterator[None]:
        """Name the weights relative to the text while it is printed, and record them for saving."""
        held = module.attributes.get(_ATTRIBUTE)
        if self._path is None or not self._keeps_weights or not isinstance(held, StringAttr):
            yield
            return
        store, name = _unsaved_store(module), _file_named(module)
        if store is not None:
            place = self._place_of_weights(self._path)
            self._stores[place] = store
            module.attributes[_ATTRIBUTE] = StringAttr(place.name)
        elif name is not None and not name.is_absolute():
            module.attributes[_ATTRIBUTE] = StringAttr(os.path.relpath(name, self._path.parent))
        try:
            yield
        finally:
            # The same object, not an equal one, because it keeps a store in memory alive.
            module.attributes[_ATTRIBUTE] = held

    def _place_of_weights(self, text_file: Path) -> Path:
        """Return a file for the next module's weights, as one text may have several modules."""
        number = f".{len(self._stores)}" if self._stores else ""
        stem = text_file.name if text_file.suffix == _SUFFIX else text_file.stem
        return text_file.with_name(f"{stem}{number}{_SUFFIX}")

    def write(self, text: str) -> None:
        """Write the text, to standard output if there is no path.

        Raises:
            InputError: the path is not writable.
        """
        if self._path is None:
            sys.stdout.write(text)
            return
        with open_outputs([self._path, *self._stores]) as (stream, *others):
            stream.write(text.encode("utf-8", "backslashreplace"))
            for other, store in zip(others, self._stores.values(), strict=True):
                store.write(other)


@contextmanager
def weights_named(module: ModuleOp, name: str) -> Iterator[bool]:
    """Name in-memory weights `name` while the module is printed; yields False if there are none."""
    held = module.attributes.get(_ATTRIBUTE)
    if held is None or _unsaved_store(module) is None:
        yield False
        return
    module.attributes[_ATTRIBUTE] = StringAttr(name)
    try:
        yield True
    finally:
        module.attributes[_ATTRIBUTE] = held


def save_weights(module: ModuleOp, path: Path) -> None:
    """Save the weights of a module that has them only in memory."""
    store = _unsaved_store(module)
    if store is not None:
        store.save(path)


def _file_named(module: ModuleOp) -> Path | None:
    attribute = module.attributes.get(_ATTRIBUTE)
    if not isinstance(attribute, StringAttr) or attribute.data.startswith("mem:"):
        return None
    return Path(attribute.data)


def _unsaved_store(module: ModuleOp) -> WeightStore | None:
    """Return the store, if the weight file does not hold all of it."""
    if _ATTRIBUTE not in module.attributes:
        return None
    from tcopt.dialects.graph.core.weights import weights_of

    name = _file_named(module)
    if name is not None and not name.is_file():
        return None
    store = weights_of(module)
    return store if store is not None and (name is None or store.changed) else None
