"""The project's exception family.

Every error a user can cause is a `TcoptError`: it says what is wrong, on which op or
ONNX node, where that came from, and what to do. Tools print `str(error)` and exit 1.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation
from xdsl.utils.hints import isa


def describe_location(location: Attribute) -> str | None:
    """Render a location for a message: `"node_name"` or `file:line:col`; None if unknown."""
    match location:
        case NameLoc():
            return f'"{location.desc.data}"'
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case CallSiteLoc():
            return describe_location(location.callee) or describe_location(location.caller)
        case FusedLoc():
            assert isa(location.locations, ArrayAttr[Attribute])
            known = [describe_location(loc) for loc in location.locations]
            return ", ".join(text for text in known if text) or None
        case _:
            return None


class TcoptError(Exception):
    """Base of all errors caused by input.

    Args:
        message: what is wrong, one sentence without a trailing full stop.
        op: the operation concerned, named in the message with its location.
        where: location text, used when there is no op (an ONNX node, a file).
        hint: what the user can do about it.
    """

    code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        op: Operation | None = None,
        where: str | None = None,
        hint: str | None = None,
    ):
        self.message = message
        self.op_name = op.name if op is not None else None
        self.where = where or (describe_location(op.location) if op is not None else None)
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        subject = f"'{self.op_name}': " if self.op_name else ""
        place = f" (at {self.where})" if self.where else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.code}: {subject}{self.message}{place}{hint}"


class InputError(TcoptError):
    """A file or value given to a tool cannot be used."""

    code = "bad-input"


class ImportModelError(TcoptError):
    """An ONNX model is malformed or inconsistent."""

    code = "bad-model"


class UnsupportedError(TcoptError):
    """Valid input that the compiler does not handle."""

    code = "unsupported"


class ParsingError(TcoptError):
    """IR text, a pipeline or an option does not parse."""

    code = "syntax"


class VerificationError(TcoptError):
    """IR that breaks a dialect's rules."""

    code = "invalid-ir"


class PassFailedError(TcoptError):
    """A pass met IR that it cannot rewrite."""

    code = "pass-failed"


class ScheduleError(TcoptError):
    """A schedule primitive's precondition does not hold."""

    code = "illegal-schedule"


class BackendError(TcoptError):
    """Code generation, linking or loading failed."""

    code = "backend"


class MismatchError(TcoptError):
    """Two results that should agree differ beyond the tolerance."""

    code = "mismatch"
