"""Non-maximum suppression of boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import Int, integer
from tcopt.dialects.graph.opaque import OpaqueOp
from tcopt.dialects.graph.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter, Scalar


@irdl_op_definition
class SuppressOp(OpaqueOp):
    """Of each class the boxes that overlap no better one, best first, and how many there are.

        %selected, %count = graph.suppress %boxes, %scores, %order, %most, %overlap, %least
            {limit = 6} : tensor<12x3xi64>, tensor<1xi64>

    Boxes [batch, n, 4] are y and x of the upper left, then of the lower right corner. Scores and
    order are [batch, classes, n]: the boxes by falling score. A box is selected if its score is
    above `least`, unless `most` of its class are, or one of these overlaps it by more than
    `overlap`, as a part of the area that both cover. The results are triples of batch, class and
    box, at most `limit` of a class; behind them there are zeros.
    """

    name = "graph.suppress"

    boxes = operand_def(TensorType)
    scores = operand_def(TensorType)
    order = operand_def(TensorType)
    most = operand_def(TensorType)
    overlap = operand_def(TensorType)
    least = operand_def(TensorType)
    limit = prop_def(Int)
    selected = result_def(TensorType)
    count = result_def(TensorType)

    def __init__(
        self,
        boxes: SSAValue | Operation,
        scores: SSAValue | Operation,
        order: SSAValue | Operation,
        most: SSAValue | Operation,
        overlap: SSAValue | Operation,
        least: SSAValue | Operation,
        *,
        limit: int,
    ):
        super().__init__([boxes, scores, order, most, overlap, least], {"limit": integer(limit)})

    def infer(self) -> Sequence[AnyTensor]:
        """As many triples as all classes can have, and one number."""
        boxes, scores, limit = shape_of(self.boxes), shape_of(self.scores), self.limit.value.data
        if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4:
            raise VerifyException("takes boxes [batch, n, 4] and scores [batch, classes, n]")
        if scores[0] != boxes[0] or scores[2] != boxes[1] or shape_of(self.order) != scores:
            raise VerifyException(f"{self.boxes.type} and {self.scores.type} do not fit")
        if not 0 <= limit <= boxes[1]:
            raise VerifyException(f"no {limit} of {boxes[1]} boxes can be selected")
        if any(shape_of(value) != (1,) for value in (self.most, self.overlap, self.least)):
            raise VerifyException("bounds are vectors of one element")
        if element_type(self.most) != i64 or not isinstance(element_type(self.order), IntegerType):
            raise VerifyException("numbers and places are integers")
        return tensor((scores[0] * scores[1] * limit, 3), i64), tensor((1,), i64)

    def compute_all(
        self, boxes: Array, scores: Array, order: Array, most: Array, overlap: Array, least: Array
    ) -> Sequence[Array]:
        """The values by numpy."""
        found: list[tuple[int, int, int]] = []
        room = max(0, min(int(most[0]), self.limit.value.data))
        for batch, of_class in np.ndindex(*scores.shape[:2]):
            chosen: list[int] = []
            for box in order[batch, of_class]:
                if len(chosen) >= room or not scores[batch, of_class, box] > least[0]:
                    continue
                if not any(_overlap(boxes[batch], box, c) > overlap[0] for c in chosen):
                    chosen.append(int(box))
            found += [(batch, of_class, box) for box in chosen]
        selected = np.zeros(shape_of(self.selected), np.int64)
        selected[: len(found)] = np.reshape(found, (-1, 3))
        return selected, np.array([len(found)])

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """One class after the other: what is selected of it lies together at the end so far."""
        boxes, scores, order, most, overlap, least, selected, count = buffers
        found = k.variable(INDEX, 0)
        with k.loops(selected.shape) as at:
            selected[at] = 0
        room = most[0].maximum(0).cast(INDEX).minimum(self.limit.value.data)
        with k.loops(scores.shape[:2]) as (batch, of_class):
            first = k.variable(INDEX, found.get())
            # The corners of the selected boxes of this class.
            kept = k.workspace((max(self.limit.value.data, 1), 4), boxes.dtype)
            with k.loop(scores.shape[2]) as rank:
                box = order[batch, of_class, rank].cast(INDEX)
                taken = k.variable(INDEX, 0)
                with k.when(scores[batch, of_class, box] > least[0]):
                    taken.set(1)
                with k.when((found.get() - first.get()).equals(room)):
                    taken.set(0)
                chosen = k.variable(INDEX, 0)
                with k.when(taken.get().equals(1)):
                    chosen.set(found.get() - first.get())
                own = [boxes[batch, box, side] for side in range(4)]
                with k.loop(chosen.get()) as before, k.when(taken.get().equals(1)):
                    at = k.limited(before, kept.shape[0])
                    ratio = _written_overlap(own, [kept[at, side] for side in range(4)])
                    with k.when(ratio > overlap[0]):
                        taken.set(0)
                with k.when(taken.get().equals(1)):
                    for side in range(4):
                        kept[found.get() - first.get(), side] = own[side]
                    for place, value in enumerate((batch, of_class, box)):
                        selected[found.get(), place] = value.cast(i64)
                    found.set(found.get() + 1)
        count[0] = found.get().cast(i64)


def _overlap(boxes: Array, a: int, b: int) -> np.floating:
    """The common area of two boxes over that which both cover; 0 if a box is empty."""
    low, high = np.maximum(boxes[a, :2], boxes[b, :2]), np.minimum(boxes[a, 2:], boxes[b, 2:])
    common = np.prod(np.maximum(high - low, 0), dtype=boxes.dtype)
    areas = [np.prod(boxes[n, 2:] - boxes[n, :2], dtype=boxes.dtype) for n in (a, b)]
    union = areas[0] + areas[1] - common
    return common / union if min(*areas, union) > 0 else boxes.dtype.type(0)


def _written_overlap(one: Sequence[Scalar], other: Sequence[Scalar]) -> Scalar:
    """As `_overlap` of corners; where nothing is covered 0 / 0 is not more than anything."""

    def area(box: Sequence[Scalar]) -> Scalar:
        return (box[2] - box[0]) * (box[3] - box[1])

    height = one[2].minimum(other[2]) - one[0].maximum(other[0])
    width = one[3].minimum(other[3]) - one[1].maximum(other[1])
    common = height.maximum(0.0) * width.maximum(0.0)
    return common / (area(one) + area(other) - common)
