"""accelerator.program: steps of an accelerator's units, and the buffers that they work on."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FixedBitwidthType, FunctionType, MemRefType, NoneAttr, StringAttr
from xdsl.ir import Attribute, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.accelerator.instructions import FinishOp, RunOp, StepOp, facts_of
from tcopt.dialects.target import AcceleratorFacts
from tcopt.support.func_syntax import parse_function, print_function


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """A program of an accelerator that its facts describe.

        accelerator.program @copy(%x: memref<4x8xi8>, %y: memref<4x8xi8>) {
          accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %x[0 by 8]
          accelerator.barrier
          accelerator.run "tile_store_1x8" [4] out %y[0 by 8] in tile_data[0 by 1]
          accelerator.barrier
          accelerator.finish
        }

    Its arguments are buffers in memory that do not overlap. Each unit executes its steps in their
    order; beside that, what comes before what is said by tokens or barriers, or found by the
    machine (`AcceleratorFacts.order`). The accelerator is the one that the attribute `tcopt.target`
    of the program or its module names.
    """

    name = "accelerator.program"

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
    def steps(self) -> list[StepOp]:
        """Its steps in their order."""
        return [op for op in self.body.block.ops if isinstance(op, StepOp)]

    @property
    def facts(self) -> AcceleratorFacts | None:
        """The accelerator that it is for, if it or its module names one."""
        return facts_of(self)

    @property
    def stored(self) -> tuple[int, ...]:
        """The numbers of the arguments that it writes."""
        runs = [step for step in self.steps if isinstance(step, RunOp)]
        written = {run.places[0].buffer for run in runs}
        return tuple(n for n, value in enumerate(self.body.block.args) if value in written)

    def verify_(self) -> None:
        if tuple(self.body.block.arg_types) != self.function_type.inputs.data:
            raise VerifyException("argument types differ from the function type")
        if self.function_type.outputs.data:
            raise VerifyException("a program writes into its arguments and returns nothing")
        for type_ in self.function_type.inputs:
            if not isa(type_, MemRefType) or not isinstance(type_.layout, NoneAttr):
                raise VerifyException(f"{type_} is no buffer without gaps")
            if not isinstance(type_.element_type, FixedBitwidthType) or -1 in type_.get_shape():
                raise VerifyException(f"{type_} is no buffer of a known size")
        if not isinstance(self.body.block.last_op, FinishOp):
            raise VerifyException("the last op of a program is accelerator.finish")
        for op in self.body.block.ops:
            if not isinstance(op, StepOp):
                raise VerifyException(f"'{op.name}' is no step of an accelerator's program")

    @classmethod
    def parse(cls, parser: Parser) -> ProgramOp:
        name, type_, body, attributes = parse_function(parser)
        op = cls(name, type_.inputs.data, body)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        print_function(printer, self.sym_name, self.function_type, self.body, self.attributes)
