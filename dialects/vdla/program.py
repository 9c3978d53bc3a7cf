"""vdla.program: a stream of instructions, and the buffers that it works on."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.ir import Attribute, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target import VdlaTargetAttr, vdla_target_of
from tcopt.dialects.vdla.compute import FinishOp
from tcopt.dialects.vdla.instruction import InstructionOp
from tcopt.dialects.vdla.kernel import KernelOp
from tcopt.dialects.vdla.transfer import verify_buffer
from tcopt.support.func_syntax import parse_function, print_function


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """A program of the accelerator: kernels, and a stream of instructions that ends with finish.

        vdla.program @copy(%x: memref<4x16xi32>, %y: memref<4x16xi32>) {
          vdla.load acc 0, %x[0] : 1x4 push(store)
          vdla.store acc 0, %y[0] : 1x4 pop(compute) push(compute)
          vdla.finish pop(store)
        }

    Its arguments are buffers in memory that do not overlap. Instructions are fetched in their
    order, and each unit executes its own in this order; units wait for each other by tokens alone.
    The target is the one that its attribute `tcopt.target`, or the module's, names.
    """

    name = "vdla.program"

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(self, name: str, arg_types: Sequence[Attribute], body: Region):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(arg_types, []),
            },
            regions=[body],
        )

    @property
    def instructions(self) -> list[InstructionOp]:
        """Its instructions in their order."""
        return [op for op in self.body.block.ops if isinstance(op, InstructionOp)]

    @property
    def kernels(self) -> list[KernelOp]:
        """Its kernels in their order."""
        return [op for op in self.body.block.ops if isinstance(op, KernelOp)]

    @property
    def target(self) -> VdlaTargetAttr | None:
        """The accelerator that it is for, if it or its module names one."""
        return vdla_target_of(self)

    def verify_(self) -> None:
        if tuple(self.body.block.arg_types) != self.function_type.inputs.data:
            raise VerifyException("argument types differ from the function type")
        if self.function_type.outputs.data:
            raise VerifyException("a program writes into its arguments and returns nothing")
        for type_ in self.function_type.inputs:
            verify_buffer(type_)
        if not isinstance(self.body.block.last_op, FinishOp):
            raise VerifyException("the last op of a program is vdla.finish")
        for op in self.body.block.ops:
            if not isinstance(op, InstructionOp | KernelOp):
                raise VerifyException(f"'{op.name}' is neither an instruction nor a kernel")

    @classmethod
    def parse(cls, parser: Parser) -> ProgramOp:
        name, type_, body, attributes = parse_function(parser)
        op = cls(name, type_.inputs.data, body)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        print_function(printer, self.sym_name, self.function_type, self.body, self.attributes)
