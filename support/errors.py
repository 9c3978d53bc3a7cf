"""Exception classes of the project.

Every error that a user can cause is a `TcoptError`. Its message says what is wrong, on which op or
ONNX node, where that is in the source, and how to fix it. Tools print `str(error)` and exit with
status 1.
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
    """Description of the ONNX node that an error is about.

    Attributes:
        operator: operator name, preceded by its domain unless it is ONNX's own.
        opset: opset version of the operator's domain; None if the model does not declare one.
        inputs: types of the inputs, such as `float32[1x3]`; `?` if unknown, `-` if omitted.
    """

    operator: str
    opset: int | None
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        version = "no opset" if self.opset is None else f"opset {self.opset}"
        return f"{self.operator}({', '.join(self.inputs)}) of {version}"


class TcoptError(Exception):
    """Base class of all errors caused by input.

    Args:
        message: one sentence that says what is wrong, without a trailing full stop.
        op: the operation concerned; the message has its name and location.
        where: location as text if there is no op, such as an ONNX node or a file.
        hint: what the user can do about it.

    Attributes:
        node: the ONNX node concerned; None if there is none.
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
        """Location as text: an ONNX node, a file, or a position in a text."""
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
    """Make text from a file safe for a terminal: escape control characters, limit the length."""
    if len(text) > limit:
        text = f"{text[:limit]}..."
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text
    )


def _place(op: Operation) -> str | None:
    # Imported lazily: errors without an op do not need xDSL.
    from tcopt.support.locations import describe_location

    return describe_location(op.location)


class InputError(TcoptError):
    """A file or value given by the user cannot be used."""

    code = "bad-input"


class SizeRangeError(InputError):
    """A size that a program computes is outside of the range that the program is compiled for.

    Attributes:
        name, value: the size.
        low, high: its range.
    """

    def __init__(self, name: str, value: int, low: int, high: int):
        self.name, self.value, self.low, self.high = name, value, low, high
        super().__init__(
            f"the size {name!r} is {value}, the model is compiled for {low} to {high}",
            hint="compile it for a larger range, or without one",
        )


class ImportModelError(TcoptError):
    """An ONNX model is malformed or inconsistent."""

    code = "bad-model"


class UnsupportedError(TcoptError):
    """Valid input that the compiler does not support."""

    code = "unsupported"


class ParsingError(TcoptError):
    """IR text, a pipeline or an option cannot be parsed."""

    code = "syntax"


class VerificationError(TcoptError):
    """IR that violates the rules of its dialect."""

    code = "invalid-ir"


class UndecidedSize(TcoptError):
    """A comparison or division of symbolic sizes whose result depends on their values.

    Args:
        left, sign, right: the operands and the operator.
    """

    code = "undecided-size"

    def __init__(self, left: str, sign: str, right: str, hint: str | None = None):
        message = f"the ranges of the sizes do not decide '{left} {sign} {right}'"
        super().__init__(message, hint=hint)


class PassFailedError(TcoptError):
    """A pass cannot rewrite the given IR."""

    code = "pass-failed"


class ScheduleError(TcoptError):
    """The precondition of a schedule primitive does not hold."""

    code = "illegal-schedule"


class BackendError(TcoptError):
    """Code generation, linking or loading failed."""

    code = "backend"


class DeviceLostError(BackendError):
    """A device cannot be used any more in this process, such as after a kernel's fault."""

    code = "device-lost"


class ResourceError(TcoptError):
    """A model needs more memory than is available."""

    code = "out-of-memory"


class CancelledError(TcoptError):
    """A run was cancelled before it was done."""

    code = "cancelled"


class DeadlineError(CancelledError):
    """A run exceeded its time limit."""

    code = "timeout"


class MismatchError(TcoptError):
    """Results that should agree differ by more than the tolerance."""

    code = "mismatch"
