"""gemm and alu: instructions of the compute unit other than loads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from xdsl.dialects.builtin import I64, IntegerAttr, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.accelerator import Effects
from tcopt.dialects.accelerator.tasks import Access
from tcopt.dialects.target import AcceleratorFacts, VdlaTargetAttr
from tcopt.dialects.vdla.attrs import (
    MOST_SHIFT,
    AluCode,
    AluCodeAttr,
    KernelKind,
    KernelType,
    Memory,
    Unit,
)
from tcopt.dialects.vdla.fields import check_entry, check_signed
from tcopt.dialects.vdla.instruction import InstructionOp, parse_known_operand
from tcopt.dialects.vdla.kernel import KernelOp
from tcopt.dialects.vdla.transfer import VALID_KERNELS, kernel_of


class ComputeOp(InstructionOp):
    """Executes the micro-ops of a kernel."""

    KIND: ClassVar[KernelKind]

    kernel = operand_def(KernelType)

    @property
    def unit(self) -> Unit:
        return Unit.COMPUTE

    @property
    def body(self) -> KernelOp:
        """The kernel."""
        return kernel_of(self.kernel)

    def verify_fields(self) -> None:
        super().verify_fields()
        if self.body.kind.data is not self.KIND:
            raise VerifyException(f"the kernel is for {self.body.kind.data}")

    @abstractmethod
    def memories(self) -> dict[str, str]:
        """Return the memory that each field of its micro-ops addresses, for the fields in use."""

    @abstractmethod
    def step_cycles(self, machine: VdlaTargetAttr) -> int:
        """Return the cycles of a micro-op."""

    @property
    def reads_target(self) -> bool:
        """Whether it reads the registers that it writes."""
        return True

    def verify_on(self, machine: VdlaTargetAttr) -> None:
        ends = self.body.last_entries()
        for field, memory in self.memories().items():
            check_entry(memory, ends[field], machine)

    def follow(self, contents: dict[str, dict[int, Any]]) -> None:
        kernel, loaded = self.body, contents.setdefault(Memory.UOP, {})
        known = contents.setdefault(VALID_KERNELS, {})
        if id(kernel) in known:
            return
        known[id(kernel)] = kernel
        for at, row in enumerate(kernel.rows, kernel.place):
            if loaded.get(at, ())[: len(row)] != row:
                end = kernel.place + kernel.size - 1
                raise VerifyException(
                    f"micro-ops {kernel.place} to {end} are executed, but not loaded"
                )

    def effects(self, facts: AcceleratorFacts, spaces: Mapping[SSAValue, str]) -> Effects:
        assert isinstance(facts, VdlaTargetAttr)
        kernel, memories = self.body, self.memories()
        found = dict(zip(kernel.fields, kernel.accesses(), strict=True))
        fields = [Access(memory, found[field]) for field, memory in memories.items()]
        read = fields if self.reads_target else fields[1:]
        cycles = facts.fill.data + kernel.count * self.step_cycles(facts)
        return Effects(tuple(read), (fields[0],), cycles)


@irdl_op_definition
class GemmOp(ComputeOp):
    """Multiplies inputs by weights and accumulates: `vdla.gemm %k pop(load) push(load)`.

    `vdla.gemm reset %k` zeroes the registers that the kernel addresses, and reads nothing.
    """

    name = "vdla.gemm"
    KIND: ClassVar = KernelKind.GEMM

    reset = opt_prop_def(UnitAttr)

    def __init__(self, kernel: SSAValue, *, reset: bool = False):
        super().__init__(operands=[kernel], properties={"reset": UnitAttr() if reset else None})

    @property
    def is_reset(self) -> bool:
        return self.reset is not None

    @property
    def reads_target(self) -> bool:
        return not self.is_reset

    def memories(self) -> dict[str, str]:
        return {"dst": "acc"} if self.is_reset else {"dst": "acc", "src": "inp", "wgt": "wgt"}

    def step_cycles(self, machine: VdlaTargetAttr) -> int:
        return machine.gemm_cycles.data

    def products(self, facts: AcceleratorFacts) -> int:
        return 0 if self.is_reset else self.body.count

    def verify_on(self, machine: VdlaTargetAttr) -> None:
        super().verify_on(machine)
        least = machine.rewrite.data
        if not self.is_reset and (found := self.body.rewrite_within(least)) is not None:
            raise VerifyException(
                f"register {found[0]} is written again after {found[1]} micro-ops, the machine "
                f"takes {least}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> GemmOp:
        reset = parser.parse_optional_keyword("reset") is not None
        op = cls(parse_known_operand(parser), reset=reset)
        op.parse_tail(parser)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" reset " if self.is_reset else " ")
        printer.print_ssa_value(self.kernel)
        self.print_tail(printer)


@irdl_op_definition
class AluOp(ComputeOp):
    """Updates registers elementwise: `vdla.alu max %k, 0`, `vdla.alu add %k`.

    With an immediate, `dst = dst op immediate`; otherwise `dst = dst op src` with a register
    `src`, so that lanes can be shifted or scaled differently.
    """

    name = "vdla.alu"
    KIND: ClassVar = KernelKind.ALU

    code = prop_def(AluCodeAttr)
    immediate = opt_prop_def(IntegerAttr[I64])

    def __init__(self, code: AluCode, kernel: SSAValue, immediate: int | None = None):
        number = None if immediate is None else IntegerAttr(immediate, i64)
        super().__init__(
            operands=[kernel], properties={"code": AluCodeAttr(code), "immediate": number}
        )

    @property
    def number(self) -> int | None:
        """The immediate operand; None for a register operand."""
        return None if self.immediate is None else self.immediate.value.data

    def memories(self) -> dict[str, str]:
        return {"dst": "acc"} if self.number is not None else {"dst": "acc", "src": "acc"}

    def verify_fields(self) -> None:
        super().verify_fields()
        if self.number is None:
            return
        check_signed("imm", self.number, "the number")
        if self.code.data is AluCode.SHR and abs(self.number) > MOST_SHIFT:
            raise VerifyException(f"{self.number} is not a shift of at most {MOST_SHIFT} bits")

    def step_cycles(self, machine: VdlaTargetAttr) -> int:
        return (machine.alu_reg if self.number is None else machine.alu_imm).data

    def verify_on(self, machine: VdlaTargetAttr) -> None:
        super().verify_on(machine)
        if not machine.has("alu"):
            raise VerifyException('the target has no "alu"')
        if self.code.data is AluCode.MULH and not machine.has("mulh"):
            raise VerifyException('the target\'s alu has no "mulh"')

    @classmethod
    def parse(cls, parser: Parser) -> AluOp:
        code = parser.parse_str_enum(AluCode)
        kernel = parse_known_operand(parser)
        number = None
        if parser.parse_optional_punctuation(","):
            number = parser.parse_integer(allow_boolean=False)
        op = cls(code, kernel, number)
        op.parse_tail(parser)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.code.data} ")
        printer.print_ssa_value(self.kernel)
        if self.number is not None:
            printer.print_string(f", {self.number}")
        self.print_tail(printer)
