"""Non-maximum suppression of boxes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Extent, extent_attr, extent_in, flag
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    as_extent,
    element_type,
    is_float,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.sorting.key_digits import sort_by_digits
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar
from tcopt.support.arithmetic.sizes import ceildiv, maximum, round_up


@irdl_op_definition
class NonMaxSuppressionOp(OpaqueOp):
    """Greedy selection of boxes in each class, dropping those that overlap a better one.

        %selected, %count = graph.non_max_suppression %boxes, %scores, %most, %overlap, %least
            {limit = 6} : tensor<12x3xi64>, tensor<1xi64>

    Boxes [batch, n, 4] are y and x of two opposite corners; with `centred`, x and y of the centre,
    then width and height. Scores are [batch, classes, n]; of equal scores, the one with the lower
    index is better. Boxes are considered in order of their scores. A box is selected if its score
    is above `least`, fewer than `most` boxes of its class have been selected, and none of these has
    an intersection over union with it above `overlap`. The results are triples of batch, class and
    box, at most `limit` for each class, padded with zeros, and their number.
    """

    name = "graph.non_max_suppression"

    boxes = operand_def(TensorType)
    scores = operand_def(TensorType)
    most = operand_def(TensorType)
    overlap = operand_def(TensorType)
    least = operand_def(TensorType)
    limit = prop_def(Extent)
    centred = opt_prop_def(UnitAttr)
    selected = result_def(TensorType)
    count = result_def(TensorType)

    def __init__(
        self,
        boxes: SSAValue | Operation,
        scores: SSAValue | Operation,
        most: SSAValue | Operation,
        overlap: SSAValue | Operation,
        least: SSAValue | Operation,
        *,
        limit: int,
        centred: bool = False,
    ):
        super().__init__(
            [boxes, scores, most, overlap, least],
            {"limit": extent_attr(limit), "centred": flag(centred)},
        )

    def infer(self) -> Sequence[AnyTensor]:
        """Return the maximum number of triples, and one count."""
        boxes, scores, limit = shape_of(self.boxes), shape_of(self.scores), extent_in(self.limit)
        if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4:
            raise VerifyException("takes boxes [batch, n, 4] and scores [batch, classes, n]")
        if scores[0] != boxes[0] or scores[2] != boxes[1]:
            raise VerifyException(f"{self.boxes.type} and {self.scores.type} do not fit")
        if not is_float(element_type(self.boxes)) or not is_float(element_type(self.scores)):
            raise VerifyException("boxes and scores must be floats")
        if not 0 <= limit <= boxes[1]:
            raise VerifyException(f"limit {limit} is outside [0, {boxes[1]}], the number of boxes")
        if any(shape_of(value) != (1,) for value in (self.most, self.overlap, self.least)):
            raise VerifyException("bounds must be vectors of one element")
        if element_type(self.most) != i64:
            raise VerifyException("the maximum number of boxes must be i64")
        return tensor((scores[0] * scores[1] * limit, 3), i64), tensor((1,), i64)

    def compute_all(
        self, boxes: Array, scores: Array, most: Array, overlap: Array, least: Array
    ) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        corners = _corners(boxes, self.centred is not None)
        found: list[tuple[int, int, int]] = []
        room = max(0, min(int(most[0]), extent_in(self.limit)))
        for batch, of_class in np.ndindex(*scores.shape[:2]):
            own = scores[batch, of_class]
            chosen: list[int] = []
            for box in np.argsort(-own, kind="stable"):
                if len(chosen) >= room or not own[box] > least[0]:
                    continue
                if not any(_overlap(corners[batch], box, c) > overlap[0] for c in chosen):
                    chosen.append(int(box))
            found += [(batch, of_class, box) for box in chosen]
        selected = np.zeros(shape_of(self.selected), np.int64)
        selected[: len(found)] = np.reshape(found, (-1, 3))
        return selected, np.array([len(found)])

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a loop that processes each class separately, and one that concatenates the
        selections."""
        boxes, scores, most, overlap, least, selected, count = buffers
        limit, (batches, classes, _) = extent_in(self.limit), scores.shape
        chosen = k.workspace((batches, classes, as_extent(maximum(limit, 1))), i64)
        counts = k.workspace((batches, classes), INDEX)
        room = most[0].maximum(0).cast(INDEX).minimum(limit)

        with k.loops(scores.shape[:2], parallel=True) as (batch, of_class):

            def corners(box: Scalar) -> list[Scalar]:
                return _written_corners(
                    [boxes[batch, box, s] for s in range(4)], self.centred is not None
                )

            order, held = _by_score(k, scores, (batch, of_class), least[0])
            best = _Best(k, limit, boxes.dtype, overlap[0])
            parts = as_extent(ceildiv(scores.shape[2], _RANKS))
            with k.loop(parts) as part, k.when(best.count.get() < room):
                ranks = (held - part * _RANKS).maximum(0).minimum(_RANKS)
                with k.loop(ranks) as rank, k.when(best.count.get() < room):
                    box = order(part * _RANKS + rank)
                    with best.adding(corners(box)):
                        chosen[batch, of_class, best.count.get()] = box.cast(i64)
            counts[batch, of_class] = best.count.get()

        found = k.variable(INDEX, 0)
        with k.loops(scores.shape[:2]) as (batch, of_class):
            with k.loop(counts[batch, of_class].maximum(0).minimum(limit)) as rank:
                triple = batch.cast(i64), of_class.cast(i64), chosen[batch, of_class, rank]
                for place, value in enumerate(triple):
                    selected[found.get() + rank, place] = value
            found.set(found.get() + counts[batch, of_class])
        count[0] = found.get().cast(i64)
        rows = selected.shape[0]
        first = found.get().maximum(0).minimum(rows)
        with k.loop(rows - first) as row, k.loop(3) as place:
            selected[first + row, place] = 0


_RANKS = 64
"""Number of boxes that are tried between two checks for remaining room."""
_LANES = 16
"""Number of selected boxes that a box is compared with at once."""


def _by_score(
    k: KernelWriter, scores: Buffer, row: tuple[Scalar, Scalar], least: Scalar
) -> tuple[Callable[[Scalar], Scalar], Scalar]:
    """Sort the boxes of a class with scores above a bound, best first; return a function from rank
    to box, and the number of boxes."""
    boxes, dtype = scores.shape[2], k.order_type(scores.dtype)
    order, keys = k.workspace((2, boxes), INDEX), k.workspace((2, boxes), dtype)
    found = k.variable(INDEX, 0)

    def take(box: Scalar) -> None:
        # Store every box, but increment the position only if its score is above the bound: no
        # branch.
        at, score = found.get(), scores[*row, box]
        order[0, at], keys[0, at] = box, ~score.order_key()
        found.set(at + k.select(score > least, 1, 0, INDEX))

    for parts in k.parts(boxes):
        with parts as part:
            above = k.variable(i32, 0)
            with part.places() as (place, _):
                is_above = k.select(scores[*row, place] > least, 1, 0, i32)
                above.set(above.get().maximum(is_above))
            with k.when(above.get() > 0), part.each() as place:
                take(place)
    held = found.get().maximum(0).minimum(boxes)
    half = k.variable(INDEX, 0)
    with k.when(held > 1):
        half.set(sort_by_digits(k, order, keys, held).get())
    return (lambda rank: order[half.get(), rank]), held


class _Best:
    """The selected boxes of a class: sides and areas as vectors, padded with empty boxes.

    Attributes:
        count: number of selected boxes.
    """

    def __init__(self, k: KernelWriter, limit: int, dtype: Attribute, overlap: Scalar):
        self.count = k.variable(INDEX, 0)
        self._writer = k
        self._overlap = overlap
        self._room = as_extent(round_up(maximum(limit, 1), _LANES))
        self._sides = k.workspace((4, self._room), dtype)
        self._areas = k.workspace((self._room,), dtype)

    @contextmanager
    def adding(self, box: Sequence[Scalar]) -> Generator[None]:
        """Add a box unless a selected one overlaps it; the body of the context runs before it is
        added."""
        k, at = self._writer, self.count.get()
        with k.when(at.modulo(_LANES).equals(0)), k.lanes(at.divided(_LANES), _LANES) as (new, _):
            place = k.limited(new, self._room)
            self._areas[place] = 0
            for side in range(4):
                self._sides[side, place] = 0
        area = _area(box)
        overlaps = k.variable(i32, 0)
        parts = (at + (_LANES - 1)).divided(_LANES).minimum(self._room // _LANES)
        with k.loop(parts) as part, k.lanes(part, _LANES) as (place, _):
            other = [self._sides[side, place] for side in range(4)]
            ratio = _written_overlap(box, area, other, self._areas[place])
            is_more = k.select(ratio > self._overlap, 1, 0, i32)
            overlaps.set(overlaps.get().maximum(is_more))
        with k.when(overlaps.get().equals(0)):
            yield
            self._areas[at] = area
            for side in range(4):
                self._sides[side, at] = box[side]
            self.count.set(at + 1)


def _corners(boxes: Array, is_centred: bool) -> Array:
    """Return the lower, then the upper limits of boxes."""
    one, other = boxes[..., :2], boxes[..., 2:]
    if is_centred:
        half = other * boxes.dtype.type(0.5)
        return np.concatenate([one - half, one + half], -1)
    return np.concatenate([np.minimum(one, other), np.maximum(one, other)], -1)


def _written_corners(box: Sequence[Scalar], is_centred: bool) -> list[Scalar]:
    """Emit the computation of `_corners` for one box."""
    one, other = box[:2], box[2:]
    if is_centred:
        half = [extent * 0.5 for extent in other]
        low = [middle - part for middle, part in zip(one, half, strict=True)]
        return low + [middle + part for middle, part in zip(one, half, strict=True)]
    pairs = list(zip(one, other, strict=True))
    return [a.minimum(b) for a, b in pairs] + [a.maximum(b) for a, b in pairs]


def _overlap(boxes: Array, a: int, b: int) -> np.floating:
    """Return the intersection over union of two boxes; 0 if a box is empty."""
    low, high = np.maximum(boxes[a, :2], boxes[b, :2]), np.minimum(boxes[a, 2:], boxes[b, 2:])
    common = np.prod(np.maximum(high - low, 0), dtype=boxes.dtype)
    areas = [np.prod(boxes[n, 2:] - boxes[n, :2], dtype=boxes.dtype) for n in (a, b)]
    union = areas[0] + areas[1] - common
    return common / union if min(*areas, union) > 0 else boxes.dtype.type(0)


def _area(box: Sequence[Scalar]) -> Scalar:
    return (box[2] - box[0]) * (box[3] - box[1])


def _written_overlap(
    one: Sequence[Scalar], area: Scalar, other: Sequence[Scalar], other_area: Scalar
) -> Scalar:
    """Emit the computation of `_overlap`; for empty boxes, 0 / 0 compares as not greater than any
    bound."""
    height = one[2].minimum(other[2]) - one[0].maximum(other[0])
    width = one[3].minimum(other[3]) - one[1].maximum(other[1])
    common = height.maximum(0.0) * width.maximum(0.0)
    return common / (area + other_area - common)
