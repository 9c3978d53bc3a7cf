"""Asynchronous copies to shared memory, and the groups in which a thread waits for them.

A thread issues copies, which proceed in the background, and ends a group of them by
`simt.commit_copies`. `simt.wait_copies` waits until at most a number of groups are pending. It
orders only the thread's own copies: other threads see them after a barrier that follows the wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, i1, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import (
    EffectInstance,
    MemoryEffect,
    MemoryEffectKind,
    MemoryReadEffect,
    MemoryWriteEffect,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa


class CopyEffect(MemoryEffect):
    """An op reads its source and writes its target."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        assert isinstance(op, CopyAsyncOp)
        return {
            EffectInstance(MemoryEffectKind.READ, op.source),
            EffectInstance(MemoryEffectKind.WRITE, op.target),
        }


@irdl_op_definition
class CopyAsyncOp(IRDLOperation):
    """Starts a copy of `count` contiguous elements to shared memory.

    ```mlir
    simt.copy_async %x[%i, %k] to %s[%r, %c] if %inside count 8
      : memref<64x64xf16>, memref<32x40xf16, 3>
    ```
    If the condition is false, it stores zeros and reads nothing. The elements of the target are
    undefined until a `simt.wait_copies`.
    """

    name = "simt.copy_async"

    source = operand_def(MemRefType)
    source_indices = var_operand_def(IndexType)
    target = operand_def(MemRefType)
    target_indices = var_operand_def(IndexType)
    inside = opt_operand_def(i1)
    count = prop_def(IntegerAttr[i64])

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(CopyEffect())

    assembly_format = (
        "$source `[` $source_indices `]` `to` $target `[` $target_indices `]` "
        "(`if` $inside^)? `count` $count attr-dict `:` type($source) `,` type($target)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        source_indices: Sequence[SSAValue],
        target: SSAValue | Operation,
        target_indices: Sequence[SSAValue],
        count: int,
        inside: SSAValue | None = None,
    ):
        super().__init__(
            operands=[source, source_indices, target, target_indices, inside],
            properties={"count": IntegerAttr(count, i64)},
        )

    @property
    def elements(self) -> int:
        """The number of elements."""
        return self.count.value.data

    def verify_(self) -> None:
        for buffer, indices in (
            (self.source, self.source_indices),
            (self.target, self.target_indices),
        ):
            assert isa(buffer.type, MemRefType)
            rank = len(buffer.type.get_shape())
            if len(indices) != rank:
                raise VerifyException(f"{len(indices)} indices for a buffer of rank {rank}")
        assert isa(self.source.type, MemRefType) and isa(self.target.type, MemRefType)
        if self.source.type.get_element_type() != self.target.type.get_element_type():
            raise VerifyException("source and target must have the same element type")
        if self.elements < 1:
            raise VerifyException("count must be at least 1")


@irdl_op_definition
class CommitCopiesOp(IRDLOperation):
    """Ends a group of asynchronous copies: those that the thread started since the last group.

    ```mlir
    simt.commit_copies
    ```
    A group may be empty.
    """

    name = "simt.commit_copies"

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class WaitCopiesOp(IRDLOperation):
    """Waits until at most `pending` of the thread's groups of copies are incomplete.

    ```mlir
    simt.wait_copies pending 1
    ```
    """

    name = "simt.wait_copies"

    pending = prop_def(IntegerAttr[i64])

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "`pending` $pending attr-dict"

    def __init__(self, pending: int):
        super().__init__(properties={"pending": IntegerAttr(pending, i64)})

    @property
    def groups(self) -> int:
        """The number of groups that may be incomplete."""
        return self.pending.value.data

    def verify_(self) -> None:
        if self.groups < 0:
            raise VerifyException("pending must not be negative")
