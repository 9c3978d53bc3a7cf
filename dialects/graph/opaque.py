"""Operators whose steps depend on one another: kernels of their own, written as loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from tcopt.dialects.graph.attributes import FusionKind
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import Array, type_of
from tcopt.dialects.loop.structure import FuncOp
from tcopt.dialects.loop.writer import LANES, Buffer, KernelWriter
from tcopt.dialects.te import api as te
from tcopt.dialects.te.scalar import storage_type


class OpaqueOp(GraphOp, ABC):
    """An operator that no tensor expression defines: sorting, scattering, suppression.

    It fuses with nothing. `write` writes its kernel as loops; `compute_all` is what these must
    give, by numpy.
    """

    FUSION: ClassVar[FusionKind] = FusionKind.OPAQUE
    OVERWRITES: ClassVar[int | None] = None
    """Which operand's buffer may be that of the first result too. `write` is then called with one
    buffer for both."""

    @abstractmethod
    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write the kernel; buffers are the operands', then the results'."""

    @abstractmethod
    def compute_all(self, *args: Any, **kwargs: Any) -> Sequence[Array]:
        """All results by numpy, from one array for each operand; 16-bit floats arrive as f32."""

    @property
    def variant(self) -> str:
        """What of its operands, beside their types, decides the loops: ops that differ in it share
        none."""
        return ""

    @property
    def is_opaque(self) -> bool:
        """It has loops of its own."""
        return True

    def compute(self, *args: Any, **kwargs: Any) -> Array:
        """The first result."""
        return self.compute_all(*args)[0]

    def tensor_expression(self, *args: Any, **kwargs: Any) -> te.Tensor:
        """There is none."""
        raise te.ExpressionError(f"{self.name} is written as loops, not as a tensor expression")

    def define(
        self, name: str, lanes: Sequence[int] = LANES, *, in_place: bool = False
    ) -> FuncOp | func.FuncOp:
        """The loops: a function of the operands' buffers and the results'.

        Args:
            lanes: of vectors along a row, the longest first.
            in_place: the operand that it overwrites is the first result, which is not an argument.
        """
        buffers: dict[str, tuple[MemRefType[Attribute], Attribute]] = {}
        for kind, values in (("in", self.operands), ("out", self.results)):
            for place, value in enumerate(values):
                if in_place and (kind, place) == ("out", 0):
                    continue
                dtype = type_of(value).element_type
                shape = type_of(value).get_shape()
                buffers[f"{kind}{place}"] = (MemRefType(storage_type(dtype), shape), dtype)
        writer = KernelWriter(name, buffers, lanes)
        written = [writer[label] for label in buffers]
        if in_place:
            assert self.OVERWRITES is not None
            written.insert(len(self.operands), written[self.OVERWRITES])
        self.write(writer, *written)
        return writer.finish()
