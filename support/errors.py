"""The project's exception family.

Every error a user can cause is a `TcoptError`: it says what is wrong, on which op or
ONNX node, where that came from, and what to do. Tools print `str(error)` and exit 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from xdsl.ir import Operation


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
        self.where = where or (None if op is None else _place(op))
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        subject = f"'{self.op_name}': " if self.op_name else ""
        place = f" (at {self.where})" if self.where else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.code}: {subject}{self.message}{place}{hint}"


def _place(op: Operation) -> str | None:
    # Without an op at hand, an error has no need of xDSL.
    from tcopt.support.locations import describe_location

    return describe_location(op.location)


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
