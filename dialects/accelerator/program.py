"""accelerator.program: the steps of an accelerator's units, and the buffers that they access."""

from __future__ import annotations

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType, NoneAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.accelerator.steps import FinishOp, StepOp, TableOp, facts_of
from tcopt.dialects.loop.buffer_function import BufferFunction
from tcopt.dialects.target import AcceleratorFacts


@irdl_op_definition
class ProgramOp(BufferFunction):
    """A program for an accelerator that is described by facts.

        accelerator.program @copy(%x: memref<4x8xi8>, %y: memref<4x8xi8>) {
          accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %x[0 by 8]
          accelerator.barrier
          accelerator.run "tile_store_1x8" [4] out %y[0 by 8] in tile_data[0 by 1]
          accelerator.barrier
          accelerator.finish
        }

    Its arguments are buffers in memory that do not overlap. It may also hold constant data that
    steps refer to, such as `vdla.kernel`. Each unit executes its steps in order;
    the order between units is given by tokens or barriers, or enforced by the hardware
    (`AcceleratorFacts.order`). The accelerator is given by the attribute `tcopt.target` of the
    program or its module.
    """

    name = "accelerator.program"

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @property
    def steps(self) -> list[StepOp]:
        """The steps of the program, in order."""
        return [op for op in self.body.block.ops if isinstance(op, StepOp)]

    @property
    def facts(self) -> AcceleratorFacts | None:
        """The accelerator that is the target of the program, if any."""
        return facts_of(self)

    @property
    def stored(self) -> tuple[int, ...]:
        """The positions of the arguments that it writes."""
        written = {step.stored for step in self.steps}
        return tuple(n for n, value in enumerate(self.body.block.args) if value in written)

    def verify_(self) -> None:
        self.verify_signature(_verify_buffer)
        if not isinstance(self.body.block.last_op, FinishOp):
            raise VerifyException("the last op of a program must be accelerator.finish")
        for op in self.body.block.ops:
            if not isinstance(op, StepOp | TableOp):
                raise VerifyException(f"'{op.name}' is not a step of an accelerator's program")


def _verify_buffer(type_: Attribute) -> None:
    if not isa(type_, MemRefType) or not isinstance(type_.layout, NoneAttr):
        raise VerifyException(f"{type_} is not a contiguous buffer")
    if not isinstance(type_.element_type, FixedBitwidthType) or -1 in type_.get_shape():
        raise VerifyException(f"{type_} is not a buffer of static size")
