"""Loading of saved models: `tcopt.load`."""

from __future__ import annotations

from pathlib import Path

from tcopt.runtime.archive import read_program
from tcopt.runtime.model import Model
from tcopt.support.errors import InputError
from tcopt.support.files.access import as_path
from tcopt.support.registries.target_registry import target_named


def load(path: str | Path, *, mapped: bool = False) -> Model:
    """Load a model that `Model.save` wrote, after verifying its digest.

    A saved model is native code: load only files from sources whose programs you would run. See
    docs/saving.md.

    Args:
        mapped: map the weights from the file, so that processes share them. The file must not
            change while the model is in use.
    Raises:
        InputError: no such file, not a compiled model, damaged, or made for another CPU.
        ResourceError: there is not enough memory.
    """
    place = as_path(path)
    if place.suffix == ".so":
        raise InputError(
            f"{place} is a shared library, to be called from C",
            hint="save the model as a .tcm file to load it again",
        )
    program = read_program(place, mapped=mapped)
    target_named(program.kind).loaded()
    model = Model.of(program)
    model.name = place.stem
    return model
