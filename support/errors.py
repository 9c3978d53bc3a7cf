"""The project's exception family.

Every error a user can cause is a `TcoptError`: it says what is wrong, on which op or
ONNX node, where that came from, and what to do. Tools print `str(error)` and exit 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from xdsl.ir import Operation

_PLACE_LENGTH = 300
_MESSAGE_LENGTH = 20_000


@dataclass(frozen=True)
class NodeFacts:
    """The ONNX node that an error is about, as messages tell it.

    Attributes:
        operator: its operator, after its domain where that is not ONNX's own.
        opset: the version of the domain's operators that it is written for, None if the model
            says none.
        inputs: each as `float32[1x3]`; `?` where nothing is known, `-` where left out.
    """

    operator: str
    opset: int | None
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        version = "no opset" if self.opset is None else f"opset {self.opset}"
        return f"{self.operator}({', '.join(self.inputs)}) of {version}"


class TcoptError(Exception):
    """Base of all errors caused by input.

    Args:
        message: what is wrong, one sentence without a trailing full stop.
        op: the operation concerned, named in the message with its location.
        where: location text, used when there is no op (an ONNX node, a file).
        hint: what the user can do about it.

    Attributes:
        node: the ONNX node concerned, None if there is none.
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
        self.message = printable(message, _MESSAGE_LENGTH, "\n")
        self.op_name = op.name if op is not None else None
        self.where = where or (None if op is None else _place(op))
        self.node: NodeFacts | None = None
        self.hint = hint and printable(hint, _MESSAGE_LENGTH, "\n")
        super().__init__(str(self))

    @property
    def where(self) -> str | None:
        """Where it is, as text: an ONNX node, a file, a place in a text."""
        return self._where

    @where.setter
    def where(self, place: str | None) -> None:
        self._where = place and printable(place, _PLACE_LENGTH)

    def __str__(self) -> str:
        subject = f"'{self.op_name}': " if self.op_name else ""
        place = f" (at {self.where})" if self.where else ""
        node = f" in {printable(str(self.node), _PLACE_LENGTH)}" if self.node else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.code}: {subject}{self.message}{place}{node}{hint}"


def printable(text: str, limit: int, allowed: str = "") -> str:
    """Text from a file for a terminal: control characters are escaped, its length is bounded."""
    if len(text) > limit:
        text = f"{text[:limit]}..."
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text
    )


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


class ResourceError(TcoptError):
    """A model needs more memory than there is."""

    code = "out-of-memory"


class CancelledError(TcoptError):
    """A run that was asked to end did, before it was done."""

    code = "cancelled"


class DeadlineError(CancelledError):
    """A run took longer than it was given."""

    code = "timeout"


class MismatchError(TcoptError):
    """Two results that should agree differ beyond the tolerance."""

    code = "mismatch"
