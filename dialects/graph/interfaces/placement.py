"""What an accelerator with a matrix unit can compute of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import Operation

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


@dataclass(frozen=True)
class Offload:
    """An operator as one on blocks of channels, as a matrix unit takes them.

    Attributes:
        before: ops on the host that make its operands, in order.
        body: what the accelerator computes.
        after: ops on the host that make the operator's result.
        products: multiplications, those with what fills up blocks included.
    """

    before: Sequence[GraphOp]
    body: Sequence[GraphOp]
    after: Sequence[GraphOp]
    products: int


class PlacementInterface(Operation):
    """What the partition of a model between processors asks."""

    def on_matrix_unit(self, inner: int, lanes: int) -> Offload | str:
        """The same by a unit that multiplies a row of `inner` signed bytes by `inner` x `lanes`
        others and sums in 32 bits, where pads are zeros; or why there is no such form.
        """
        return "it is no sum of products"
