"""Keeping weights beside the text that names them.

In a file, `graph.weights = "net.safetensors"` is relative to the folder of the file; in
memory it is relative to the working directory. Tools convert on reading and writing, and
save a store that exists only in memory next to the text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, StringAttr

if TYPE_CHECKING:
    from tcopt.dialects.graph.weights import WeightStore

_ATTRIBUTE = "graph.weights"


def find_weights(module: ModuleOp, text_file: Path) -> None:
    """After reading `text_file`: make a relative weight file relative to where we are."""
    name = _file_named(module)
    if name is not None and not name.is_absolute():
        path = os.path.relpath(text_file.parent / name)
        module.attributes[_ATTRIBUTE] = StringAttr(path)


@contextmanager
def weights_beside(module: ModuleOp, text_file: Path) -> Iterator[None]:
    """While writing `text_file`: name the weights relative to it, saving them if need be."""
    held = module.attributes.get(_ATTRIBUTE)
    if not isinstance(held, StringAttr):
        yield
        return
    store = _unsaved_store(module)
    name = _file_named(module)
    if store is not None:
        path = text_file.with_suffix(".safetensors")
        store.save(path)
        module.attributes[_ATTRIBUTE] = StringAttr(path.name)
    elif name is not None and not name.is_absolute():
        path = os.path.relpath(name, text_file.parent)
        module.attributes[_ATTRIBUTE] = StringAttr(path)
    try:
        yield
    finally:
        # The same object, not an equal one: a store in memory lives as long as it does.
        module.attributes[_ATTRIBUTE] = held


@contextmanager
def weights_named(module: ModuleOp, name: str) -> Iterator[bool]:
    """While printing: name weights that are only in memory `name`; False if there are none."""
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
    """Save the store of a module that has one only in memory."""
    store = _unsaved_store(module)
    if store is not None:
        store.save(path)


def _file_named(module: ModuleOp) -> Path | None:
    attribute = module.attributes.get(_ATTRIBUTE)
    if not isinstance(attribute, StringAttr) or attribute.data.startswith("mem:"):
        return None
    return Path(attribute.data)


def _unsaved_store(module: ModuleOp) -> WeightStore | None:
    """The store, if the file that the module names does not hold all of it."""
    if _ATTRIBUTE not in module.attributes:
        return None
    from tcopt.dialects.graph.weights import weights_of

    name = _file_named(module)
    if name is not None and not name.is_file():
        return None
    store = weights_of(module)
    return store if store is not None and (name is None or store.changed) else None
