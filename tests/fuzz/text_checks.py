"""The checks on one text: parse, verify, print, parse again, compile to LLVM IR.

For any text, each step either works or raises an error intended for a reader. Anything else is a
finding.
"""

from __future__ import annotations

import os
import re
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException, ParseError

from checks.same_module import difference
from tcopt.compiler.pipeline import pipeline
from tcopt.support.errors import TcoptError
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.phases import pipeline_text
from tcopt.support.pipelines.running import new_context, run_passes
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.tools.passes.driver import InputText, PrintOptions, emit, print_module

MEANT = (TcoptError, DiagnosticException, ParseError)
"""Errors that describe what is wrong with an input."""

_CODE = {"cpu": "llvm", "cuda": "ptx", "opencl": "opencl"}
"""Emitters by kind of target."""

_FORMS = {"custom": PrintOptions(), "generic": PrintOptions(generic=True)}


class Hang(BaseException):
    """A text exceeded its time limit. No `except Exception` catches it."""


@dataclass(frozen=True)
class Finding:
    """A finding for a text.

    Attributes:
        signature: key of the failure: equal for texts that fail in the same way at the same line.
        detail: the end of the traceback, or the difference.
    """

    signature: str
    detail: str


def check(text: str, seconds: float, target: str = "cpu:haswell") -> Finding | None:
    """Return what is wrong with the handling of a text, or None."""
    stage = ["parse"]
    try:
        with time_limit(seconds):
            return _check(text, stage, target)
    except MEANT:
        return None
    except Hang as hang:
        frames = traceback.extract_tb(hang.__traceback__)
        return Finding(f"{stage[0]}: hang in {_own_place(frames)}", _tail(hang))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        message = re.sub(r"[\d.]+|'[^']*'|\"[^\"]*\"|%\S+", "_", str(error).split("\n")[0])[:60]
        place = f"{type(error).__name__} in {_own_place(frames)}"
        return Finding(f"{stage[0]}: {place}: {message}", _tail(error))


def _check(text: str, stage: list[str], target: str) -> Finding | None:
    module = _parse(text)
    stage[0] = "verify"
    verify(module)
    for form, options in _FORMS.items():
        stage[0] = f"print {form}"
        if (finding := _check_round_trip(module, form, options, stage)) is not None:
            return finding
    stage[0] = "compile"
    return _compile(module, text, target)


def _check_round_trip(
    module: ModuleOp, form: str, options: PrintOptions, stage: list[str]
) -> Finding | None:
    printed = print_module(module, options)
    stage[0] = f"parse {form} again"
    try:
        again = _parse(printed)
        verify(again)
    except MEANT as error:
        message = str(error).strip().splitlines()[-1]
        return Finding(f"{form} text does not parse back: {_family(message)}", f"{printed}{error}")
    if (what := difference(module, again)) is not None:
        where = f"{form} text parses back to another module: {what.split(':')[:2]}"
        return Finding(where, f"{what}\n{printed}")
    if (second := print_module(again, options)) != printed:
        return Finding(f"{form} text changes when parsed and printed", f"{printed}\n{second}")
    return None


def _compile(module: ModuleOp, text: str, target: str) -> Finding | None:
    ctx = new_context()
    passes = parse_pipeline(pipeline_text(pipeline(target)))
    for each in passes:
        try:
            run_passes(ctx, module, (each,), [])
        except MEANT:
            return None
        try:
            verify(module)
        except MEANT as error:
            if "outside of [" in str(error):
                # The op was in a guard, which the verifier does not evaluate, until a pass did.
                return None
            where = f"pass {each.name} leaves invalid IR"
            return Finding(f"{where}: {_family(str(error))}", str(error))
    with suppress(MEANT):
        emit(ctx, module, _CODE[target.partition(":")[0]], PrintOptions())
    return None


def _parse(text: str) -> ModuleOp:
    return InputText("fuzz.mlir", text.encode("utf-8", "replace"), "mlir").parse(new_context())


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `Hang` in the body after this much CPU time, independent of other load."""

    def expire(number: int, frame: FrameType | None) -> None:
        raise Hang

    previous = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def _own_place(frames: traceback.StackSummary) -> str:
    """Return the innermost frame of this project, and the innermost frame if it is another one."""
    own = [f for f in frames if f"{os.sep}tcopt{os.sep}" in f.filename] or list(frames)
    places = dict.fromkeys(f"{_short(f.filename)}:{f.name}" for f in (own[-1], frames[-1]))
    return " > ".join(places)


def _short(path: str) -> str:
    return os.sep.join(path.split(os.sep)[-2:])


def _family(message: str) -> str:
    return re.sub(r"[\d.]+|'[^']*'|\"[^\"]*\"|%\S+|\S*<\S*>", "_", message)[:80]


def _tail(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-4))[-1500:]
