"""vdla.program: a stream of instructions, and the buffers that it accesses."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.loop.buffer_function import BufferFunction
from tcopt.dialects.target import VdlaTargetAttr, vdla_target_of
from tcopt.dialects.vdla.compute import FinishOp
from tcopt.dialects.vdla.instruction import InstructionOp
from tcopt.dialects.vdla.kernel import KernelOp
from tcopt.dialects.vdla.transfer import verify_buffer


@irdl_op_definition
class ProgramOp(BufferFunction):
    """A program of the accelerator: kernels, and a stream of instructions that ends with finish.

        vdla.program @copy(%x: memref<4x16xi32>, %y: memref<4x16xi32>) {
          vdla.load acc 0, %x[0] : 1x4 push(store)
          vdla.store acc 0, %y[0] : 1x4 pop(compute) push(compute)
          vdla.finish pop(store)
        }

    Its arguments are buffers in memory that do not overlap. Instructions are fetched in order, and
    each unit executes its instructions in order; units synchronise by tokens only. The target is
    given by the attribute `tcopt.target` of the program or of the module.
    """

    name = "vdla.program"

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @property
    def instructions(self) -> list[InstructionOp]:
        """The instructions of the program, in order."""
        return [op for op in self.body.block.ops if isinstance(op, InstructionOp)]

    @property
    def kernels(self) -> list[KernelOp]:
        """The kernels of the program, in order."""
        return [op for op in self.body.block.ops if isinstance(op, KernelOp)]

    @property
    def target(self) -> VdlaTargetAttr | None:
        """The accelerator that is the target of the program, if any."""
        return vdla_target_of(self)

    def verify_(self) -> None:
        self.verify_signature(verify_buffer)
        if not isinstance(self.body.block.last_op, FinishOp):
            raise VerifyException("the last op of a program must be vdla.finish")
        for op in self.body.block.ops:
            if not isinstance(op, InstructionOp | KernelOp):
                raise VerifyException(f"'{op.name}' is neither an instruction nor a kernel")
