"""Operators with dependences between their steps, each lowered to a hand-written loop kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from tcopt.dialects.graph.core.attributes import FusionKind
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, shape_of, type_of
from tcopt.dialects.loop.structure import FuncOp
from tcopt.dialects.loop.writer import LANES, Buffer, KernelWriter
from tcopt.dialects.size import sized_memref
from tcopt.dialects.te import api as te
from tcopt.dialects.te.function_sizes import FunctionSizes
from tcopt.dialects.te.scalar import storage_type


class OpaqueOp(GraphOp, ABC):
    """An operator that has no tensor expression: sorting, scattering, suppression.

    It fuses with nothing. `write` emits its kernel as loops; `compute_all` is the numpy reference
    for them.
    """

    FUSION: ClassVar[FusionKind] = FusionKind.OPAQUE
    OVERWRITES: ClassVar[int | None] = None
    """Index of the operand whose buffer the first result may reuse. `write` is then called with one
    buffer for both."""

    @abstractmethod
    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write the kernel; `buffers` are those of the operands, then of the results."""

    @abstractmethod
    def compute_all(self, *args: Any, **kwargs: Any) -> Sequence[Array]:
        """Evaluate all results with numpy, from one array for each operand; 16-bit floats are
        passed as f32."""

    @property
    def variant(self) -> str:
        """Key of the operand properties, other than types, that the loops depend on. Ops with
        different keys do not share a kernel."""
        return ""

    @property
    def is_opaque(self) -> bool:
        """True: the op has a loop kernel of its own."""
        return True

    def compute(self, *args: Any, **kwargs: Any) -> Array:
        """Return the first result."""
        return self.compute_all(*args)[0]

    def tensor_expression(self, *args: Any, **kwargs: Any) -> te.Tensor:
        """Raise ExpressionError: the op has no tensor expression."""
        raise te.ExpressionError(f"{self.name} is written as loops, not as a tensor expression")

    def define(
        self,
        name: str,
        lanes: Sequence[int] = LANES,
        sizes: FunctionSizes | None = None,
        *,
        in_place: bool = False,
    ) -> FuncOp | func.FuncOp:
        """Return the kernel: a function of the buffers of operands and results, and of sizes.

        Args:
            lanes: vector lengths to use along a row, the longest first.
            sizes: collects the sizes of the function, and their values in a call.
            in_place: whether the overwritten operand is the first result, which is then not an
                argument.
        """
        buffers: dict[str, tuple[MemRefType[Attribute], Attribute]] = {}
        for kind, values in (("in", self.operands), ("out", self.results)):
            for place, value in enumerate(values):
                if in_place and (kind, place) == ("out", 0):
                    continue
                dtype = type_of(value).element_type
                type_ = sized_memref(shape_of(value), storage_type(dtype))
                buffers[f"{kind}{place}"] = (type_, dtype)
        writer = KernelWriter(name, buffers, lanes, sizes)
        written = [writer[label] for label in buffers]
        if in_place:
            assert self.OVERWRITES is not None
            written.insert(len(self.operands), written[self.OVERWRITES])
        self.write(writer, *written)
        return writer.finish()
