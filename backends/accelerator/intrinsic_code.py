"""Code of accelerators that are described by intrinsics: the text of a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import StringIO
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from tcopt.backends.accelerator.code import ACCELERATOR, ANY, Array, Code, Settings, code_of
from tcopt.backends.accelerator.execution import run_program
from tcopt.dialects.accelerator import DIALECT, ProgramOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, AcceleratorFacts
from tcopt.support.errors import InputError
from tcopt.support.registries.registry import all_dialects
from tcopt.support.syntax.parsing import LocatedParser


@code_of(ANY)
class IntrinsicCode(Code):
    """Text of a program whose intrinsics define what it computes."""

    def __init__(self, program: ProgramOp, facts: AcceleratorFacts):
        super().__init__(facts)
        self._program = program

    @classmethod
    def of_program(cls, program: ProgramOp, facts: AcceleratorFacts) -> IntrinsicCode:
        return cls(program, facts)

    @classmethod
    def of_settings(
        cls, settings: Settings, shapes: Sequence[tuple[int, ...]], bits: Sequence[int]
    ) -> IntrinsicCode:
        found = _parsed(str(settings.get("program", "")), str(settings.get(ACCELERATOR, "")))
        return cls(*found)

    @property
    def program(self) -> ProgramOp:
        return self._program

    def settings(self) -> dict[str, Any]:
        alone = self.program.clone()
        alone.attributes[TARGET_ATTRIBUTE] = self.facts
        stream = StringIO()
        Printer(stream).print_op(ModuleOp([alone]))
        return {"program": stream.getvalue()}

    def execute(self, buffers: Sequence[Array], order: Iterable[int] | None = None) -> None:
        run_program(self.program, self.facts, buffers, order)


@lru_cache(maxsize=256)
def _parsed(text: str, accelerator: str) -> tuple[ProgramOp, AcceleratorFacts]:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(DIALECT)
    dialect = accelerator.partition(".")[0]
    known = all_dialects()
    if dialect not in known:
        raise InputError(
            f"the accelerator '{accelerator}' is not known",
            hint="load the plugin that describes it",
        )
    context.load_dialect(known[dialect]())
    try:
        module = LocatedParser(context, text, "program").parse_module()
        (program,) = module.ops
        module.verify()
    except (ParseError, VerifyException, ValueError) as error:
        raise InputError(f"this is not a program of an accelerator: {error}") from error
    facts = program.attributes.get(TARGET_ATTRIBUTE)
    if not isinstance(program, ProgramOp) or not isinstance(facts, AcceleratorFacts):
        raise InputError("this is not a program of an accelerator")
    return program, facts
