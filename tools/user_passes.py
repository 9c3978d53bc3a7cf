"""Passes from a user's own Python file, for `tcopt --load`."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path

from xdsl.passes import ModulePass

from tcopt.support.errors import InputError
from tcopt.support.registry import PassFactory


def load_passes(path: str) -> dict[str, PassFactory]:
    """Import a file and return factories of the passes it defines, by name.

    What else it registers (schedule rules, ops, emit rules) is known from then on.

    Raises:
        InputError: the file is missing or fails to import.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no file '{path}' to load passes from")
    module_name = f"tcopt_user_{file.stem}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"'{path}' is not a Python file", hint="its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name while they are being defined.
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"cannot load '{path}': {_where(file, error)}") from error
    found = {
        value.name: _factory(value)
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ModulePass)
        and value.__module__ == module_name
        and hasattr(value, "name")
    }
    return found


def _factory(cls: type[ModulePass]) -> PassFactory:
    return lambda: cls


def _where(file: Path, error: Exception) -> str:
    """The error with the line of the user's file it came from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename) == file]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"
