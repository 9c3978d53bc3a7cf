"""Code of VDLA: encoded instructions and micro-ops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.exceptions import VerifyException

from tcopt.backends.accelerator.code import Array, Code, Settings, code_of
from tcopt.backends.vdla.disassembly import program_of
from tcopt.backends.vdla.encoding import Encoded, decode, encode
from tcopt.backends.vdla.simulator.function import Plans, run_stream
from tcopt.backends.vdla.source import stream_for
from tcopt.backends.vdla.stream import Buffer, Stream
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.target import AcceleratorFacts, VdlaTargetAttr
from tcopt.support.errors import InputError


@code_of(VdlaTargetAttr.name)
class VdlaCode(Code):
    """The instructions of a program, and analyses of them that are reused between runs."""

    def __init__(self, stream: Stream, machine: VdlaTargetAttr):
        super().__init__(machine)
        self.stream, self.machine = stream, machine
        self._plans: Plans = {}

    @classmethod
    def of_program(cls, program: ProgramOp, facts: AcceleratorFacts) -> VdlaCode:
        assert isinstance(facts, VdlaTargetAttr)
        code = cls(stream_for(program, facts), facts)
        code.program = program
        return code

    @classmethod
    def of_settings(
        cls, settings: Settings, shapes: Sequence[tuple[int, ...]], bits: Sequence[int]
    ) -> VdlaCode:
        try:
            names, addresses = settings["buffers"], settings["addresses"]
            buffers = tuple(
                (Buffer(str(name), tuple(shape), size), int(address))
                for name, address, shape, size in zip(names, addresses, shapes, bits, strict=True)
            )
            encoded = Encoded(
                str(settings["program"]),
                buffers,
                int(settings["table"]),
                _words(settings["micro_ops"], "<u4"),
                _words(settings["instructions"], "<u8").reshape(-1, 2),
            )
            machine = _machine(settings["machine"])
        except (LookupError, TypeError, ValueError, AttributeError, VerifyException) as error:
            raise InputError(f"this is not a program of an accelerator: {error}") from error
        return cls(decode(encoded, machine), machine)

    @cached_property
    def program(self) -> ProgramOp:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The program, or one that is recovered from its instructions."""
        return program_of(self.stream)

    def settings(self) -> dict[str, Any]:
        encoded = encode(self.stream, self.machine)
        return {
            "program": encoded.name,
            "machine": [f"{name}={value}" for name, value in self.machine.facts().items()],
            "buffers": [buffer.name for buffer, _ in encoded.buffers],
            "addresses": [address for _, address in encoded.buffers],
            "table": encoded.table,
            "micro_ops": encoded.micro_ops.astype("<u4").tobytes().hex(),
            "instructions": encoded.instructions.astype("<u8").tobytes().hex(),
        }

    def execute(self, buffers: Sequence[Array], order: Iterable[int] | None = None) -> None:
        run_stream(self.stream, self.machine, buffers, order=order, plans=self._plans)


def _machine(facts: Iterable[str]) -> VdlaTargetAttr:
    found: dict[str, str] = {}
    for fact in facts:
        name, _, value = fact.partition("=")
        found[name] = value
    return VdlaTargetAttr.of_facts(found)


def _words(text: str, dtype: str) -> NDArray[Any]:
    return np.frombuffer(bytes.fromhex(text), dtype).astype(dtype[1:])
