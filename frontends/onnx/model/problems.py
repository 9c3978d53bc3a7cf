"""Gathers what is wrong with a model, or not supported in it, to report it all at once."""

from __future__ import annotations

from tcopt.frontends.onnx.model.errors import MissingValuesError
from tcopt.support.errors import TcoptError, UnsupportedError

_NODES_LISTED = 5


class AlreadyReported(Exception):
    """What is needed could not be imported, for a reason that is among the problems."""


class Problems:
    """The errors met so far.

    Args:
        keep_all: go on after errors that leave no model to compile, as checking one does;
            otherwise only what is unsupported is kept, and the rest is raised at once.
    """

    def __init__(self, *, keep_all: bool = False) -> None:
        self.errors: list[TcoptError] = []
        self._keep_all = keep_all
        self._seen: set[tuple[str, str, str | None]] = set()

    def add(self, error: TcoptError) -> None:
        """Keep one for the report, unless it is there already; or raise it."""
        if not self._keep_all and not isinstance(error, UnsupportedError):
            raise error
        key = error.code, error.message, error.where
        if key not in self._seen:
            self._seen.add(key)
            self.errors.append(error)

    def raise_all(self) -> None:
        """Raise one error that tells them all, each with its nodes; nothing if none."""
        if not self.errors:
            return
        if len(self.errors) == 1:
            raise self.errors[0]
        nodes: dict[str, list[str]] = {}
        for error in self.errors:
            nodes.setdefault(error.message, []).append(error.where or "model")
        lines = [f"{message} (at {_listed(names)})" for message, names in nodes.items()]
        missing = [error for error in self.errors if isinstance(error, MissingValuesError)]
        inputs = list(dict.fromkeys(name for error in missing for name in error.inputs))
        if len(missing) == len(self.errors):
            raise MissingValuesError("\n  ".join(lines), inputs)
        if len(lines) == 1:
            raise UnsupportedError(lines[0], hint=_LIST_HINT)
        text = "\n  ".join(lines)
        raise UnsupportedError(f"{len(lines)} things in this model:\n  {text}", hint=_LIST_HINT)


_LIST_HINT = "tcopt-check lists each node with its inputs and what to do"


def _listed(names: list[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:_NODES_LISTED])
    more = len(names) - _NODES_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
