"""Conversion of modules to streams for a machine."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tcopt.backends.vdla.assembly import write_assembly
from tcopt.backends.vdla.machines import named_machine
from tcopt.backends.vdla.stream import Stream, stream_of
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.support.errors import UnsupportedError, VerificationError

DEFAULT = "vdla"
"""The machine of programs without a target."""


def stream_for(program: ProgramOp, target: VdlaTargetAttr | None = None) -> Stream:
    """Convert a program to a stream for a machine, by default its target.

    Raises:
        VerificationError: the machine lacks what an instruction needs.
    """
    machine = target or machine_of(program)
    for op in program.steps:
        try:
            op.verify_for(machine)
        except VerifyException as error:
            raise VerificationError(str(error), op=op) from None
    return stream_of(program)


def machine_of(program: ProgramOp) -> VdlaTargetAttr:
    """Return the target machine of a program, by default `DEFAULT`."""
    facts = program.facts or named_machine(DEFAULT)
    if not isinstance(facts, VdlaTargetAttr):
        raise UnsupportedError(f"its accelerator is not a VDLA, but {facts.kind}", op=program)
    return facts


def programs_of(module: ModuleOp) -> Iterator[ProgramOp]:
    """Yield the programs of a module, in order."""
    return (op for op in module.ops if isinstance(op, ProgramOp))


def write_streams(module: ModuleOp, target: VdlaTargetAttr | None = None) -> str:
    """Return the programs of a module as assembly text.

    Args:
        target: by default the target of each program.
    Raises:
        UnsupportedError: there is no program, or one cannot be encoded.
        VerificationError: the machine lacks what an instruction needs.
    """
    texts = [
        write_assembly(stream_for(each, target), target or machine_of(each))
        for each in programs_of(module)
    ]
    if not texts:
        raise UnsupportedError(
            "the module has no accelerator.program", hint="-t vdla prints programs of a VDLA"
        )
    return "".join(texts)
