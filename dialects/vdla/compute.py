"""gemm, alu and finish: instructions of the compute unit other than loads."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from xdsl.dialects.builtin import I64, IntegerAttr, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla.attrs import (
    MOST_SHIFT,
    AluCode,
    AluCodeAttr,
    KernelKind,
    KernelType,
    Unit,
)
from tcopt.dialects.vdla.fields import check_entry, check_signed
from tcopt.dialects.vdla.instruction import InstructionOp, parse_known_operand
from tcopt.dialects.vdla.kernel import KernelOp
from tcopt.dialects.vdla.transfer import kernel_of


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

    def verify_for(self, target: VdlaTargetAttr) -> None:
        ends = self.body.last_entries()
        for field, memory in self.memories().items():
            check_entry(memory, ends[field], target)


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

    def memories(self) -> dict[str, str]:
        return {"dst": "acc"} if self.is_reset else {"dst": "acc", "src": "inp", "wgt": "wgt"}

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

    def verify_for(self, target: VdlaTargetAttr) -> None:
        super().verify_for(target)
        if not target.has("alu"):
            raise VerifyException('the target has no "alu"')
        if self.code.data is AluCode.MULH and not target.has("mulh"):
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


@irdl_op_definition
class FinishOp(InstructionOp):
    """Ends the program: the compute unit signals the host when it reaches this instruction.

    Pending work of other units must be waited for explicitly: `vdla.finish pop(store)`.
    """

    name = "vdla.finish"

    traits = traits_def(IsTerminator())

    def __init__(self) -> None:
        super().__init__()

    @property
    def unit(self) -> Unit:
        return Unit.COMPUTE

    def verify_fields(self) -> None:
        super().verify_fields()
        if self.pushes:
            raise VerifyException("no instruction is left that could wait for a token")

    @classmethod
    def parse(cls, parser: Parser) -> FinishOp:
        op = cls()
        op.parse_tail(parser)
        return op

    def print(self, printer: Printer) -> None:
        self.print_tail(printer)
