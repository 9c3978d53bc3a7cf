"""Collects errors and unsupported features of a model to report them together."""

from __future__ import annotations

from tcopt.frontends.onnx.model.errors import MissingValuesError
from tcopt.support.errors import TcoptError, UnsupportedError

_NODES_LISTED = 5


class AlreadyReported(Exception):
    """A required value could not be imported; the reason is already among the problems."""


class Problems:
    """Errors found so far.

    Args:
        keep_all: whether to continue after all errors, as when checking a model; by default only
            unsupported features are collected, and other errors are raised at once.
    """

    def __init__(self, *, keep_all: bool = False) -> None:
        self.errors: list[TcoptError] = []
        self._keep_all = keep_all
        self._seen: set[tuple[str, str, str | None]] = set()

    def add(self, error: TcoptError) -> None:
        """Record an error unless it is a duplicate; or raise it."""
        if not self._keep_all and not isinstance(error, UnsupportedError):
            raise error
        key = error.code, error.message, error.where
        if key not in self._seen:
            self._seen.add(key)
            self.errors.append(error)

    def error(self) -> TcoptError:
        """Return one error that lists all errors with their nodes."""
        if len(self.errors) == 1:
            return self.errors[0]
        nodes: dict[str, list[str]] = {}
        for error in self.errors:
            nodes.setdefault(error.message, []).append(error.where or "model")
        lines = [f"{message} (at {_listed(names)})" for message, names in nodes.items()]
        missing = [error for error in self.errors if isinstance(error, MissingValuesError)]
        inputs = list(dict.fromkeys(name for error in missing for name in error.inputs))
        if len(missing) == len(self.errors):
            return MissingValuesError("\n  ".join(lines), inputs)
        if len(lines) == 1:
            return UnsupportedError(lines[0], hint=_LIST_HINT)
        text = "\n  ".join(lines)
        return UnsupportedError(f"{len(lines)} unsupported features:\n  {text}", hint=_LIST_HINT)


_LIST_HINT = "tcopt-check lists each node with its inputs and a hint"


def _listed(names: list[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:_NODES_LISTED])
    more = len(names) - _NODES_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
