"""Gathers what the compiler does not support in a model, to report it all at once."""

from __future__ import annotations

from tcopt.frontends.onnx.errors import MissingValuesError
from tcopt.support.errors import UnsupportedError

_NODES_LISTED = 5


class Problems:
    """The UnsupportedErrors met so far."""

    def __init__(self) -> None:
        self._errors: list[UnsupportedError] = []

    def add(self, error: UnsupportedError) -> None:
        """Keep one for the report."""
        self._errors.append(error)

    def raise_all(self) -> None:
        """Raise one error that tells them all, each with its nodes; nothing if none."""
        if not self._errors:
            return
        if len(self._errors) == 1:
            raise self._errors[0]
        nodes: dict[str, list[str]] = {}
        for error in self._errors:
            nodes.setdefault(error.message, []).append(error.where or "model")
        lines = [f"{message} (at {_listed(names)})" for message, names in nodes.items()]
        missing = [error for error in self._errors if isinstance(error, MissingValuesError)]
        inputs = list(dict.fromkeys(name for error in missing for name in error.inputs))
        if len(missing) == len(self._errors):
            raise MissingValuesError("\n  ".join(lines), inputs)
        if len(lines) == 1:
            raise UnsupportedError(lines[0])
        raise UnsupportedError(f"{len(lines)} things in this model:\n  " + "\n  ".join(lines))


def _listed(names: list[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:_NODES_LISTED])
    more = len(names) - _NODES_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
