"""Slices moved in front of the ops whose results they take a part of.

A walk by hand: parts of values, by what is used of them, are threaded through.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, NamedTuple

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import FusionKind
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.slice import SliceOp
from tcopt.dialects.graph.types import element_type, shape_of, tensor
from tcopt.passes.graph.motion.followed_axes import followed_axes
from tcopt.support.remarks import remark
from tcopt.support.rewriting import erase, insert

PART = 2
"""An op is done on a part of its result if that is at most the whole divided by this: what is
left out has to be worth the slices that cut its operands."""


class Box(NamedTuple):
    """A part of a tensor: where it starts, and its shape."""

    starts: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def whole(cls, value: SSAValue) -> Box:
        """All of a value."""
        shape = shape_of(value)
        return cls((0,) * len(shape), shape)

    def union(self, other: Box) -> Box:
        """The smallest box around both."""
        starts = tuple(map(min, self.starts, other.starts))
        ends = map(max, self.ends, other.ends)
        return Box(starts, tuple(e - s for e, s in zip(ends, starts, strict=True)))

    @property
    def ends(self) -> tuple[int, ...]:
        """One past the last index of each axis."""
        return tuple(s + n for s, n in zip(self.starts, self.shape, strict=True))


@dataclass(frozen=True)
class HoistSlicesPass(ModulePass):
    """Compute of a result only the part that is used.

    An op of which only a slice is used is done on slices of its operands, and so are the ops
    that give these, as long as each needs no more than a part of its own operands. It is done
    where that leaves out work of reductions and products; elementwise ops alone run along with
    what is in front of them.

        %y = graph.layer_norm %x, %g, %b {axis = 1} : tensor<197x384xf32>
        %z = graph.matmul %y, %w : tensor<197x10xf32>
        %s = graph.slice %z {starts = [0, 0]} : tensor<1x10xf32>
    ->
        %0 = graph.slice %x {starts = [0, 0]} : tensor<1x384xf32>
        %y = graph.layer_norm %0, %g, %b {axis = 1} : tensor<1x384xf32>
        %s = graph.matmul %y, %w : tensor<1x10xf32>
    """

    name = "hoist-slices"
    moves_values: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                _hoist(function.body.block)


def _hoist(block: Block) -> None:
    if not any(isinstance(op, SliceOp) for op in block.ops):
        return
    demand = _Demand()
    for op in reversed(list(block.ops)):
        demand.visit(op)
    narrowing = _Narrowing(demand)
    for op in list(block.ops):
        if isinstance(op, GraphOp) and demand.is_partial(op) and narrowing.pays(op):
            narrowing.narrow(op)
    for op in reversed(narrowing.replaced):
        erase(op)


@dataclass
class _Demand:
    """Which parts of values are used.

    Attributes:
        parts: what is used of each value, by the ops visited so far.
        operands: of ops that can be done on a part of their operands, these parts.
    """

    parts: dict[SSAValue, Box] = field(default_factory=dict[SSAValue, Box])
    operands: dict[Operation, list[Box]] = field(default_factory=dict[Operation, list[Box]])

    def is_partial(self, op: GraphOp) -> bool:
        """Whether an op can be done for the used part of its result alone."""
        return op in self.operands

    def visit(self, op: Operation) -> None:
        """Find what an op uses, when all that use its results were visited."""
        boxes = self._used(op)
        if boxes is None:
            boxes = [Box.whole(v) if _is_tensor(v) else Box((), ()) for v in op.operands]
        else:
            self.operands[op] = boxes
        for value, box in zip(op.operands, boxes, strict=True):
            known = self.parts.get(value)
            self.parts[value] = box if known is None else known.union(box)

    def _used(self, op: Operation) -> list[Box] | None:
        """Parts of the operands that are enough; None if it takes all of them."""
        if not isinstance(op, GraphOp) or len(op.results) != 1 or 0 in op.shape:
            return None
        box = self.parts.get(op.results[0])
        if isinstance(op, SliceOp):
            return _before_slice(op, box or Box.whole(op.results[0]))
        if box is None or prod(box.shape) * PART > prod(op.shape):
            return None
        axes = [i for i, (n, all) in enumerate(zip(box.shape, op.shape, strict=True)) if n < all]
        followed = followed_axes(op, axes)
        if followed is None:
            return None
        return self._checked(op, box, [*map(tuple, followed)])

    def _checked(
        self, op: GraphOp, box: Box, followed: list[tuple[int | None, ...]]
    ) -> list[Box] | None:
        """The operands' parts, if the op's own rules give the part of the result from them."""
        cut = {axis for each in followed for axis in each if axis is not None}
        whole = Box.whole(op.results[0])
        starts = [(box if a in cut else whole).starts[a] for a in range(len(op.shape))]
        shape = [(box if a in cut else whole).shape[a] for a in range(len(op.shape))]
        part = Box(tuple(starts), tuple(shape))
        if prod(part.shape) * PART > prod(op.shape):
            return None
        boxes: list[Box] = []
        for value, axes in zip(op.operands, followed, strict=True):
            own = Box.whole(value)
            pick = [(part, a) if a is not None else (own, i) for i, a in enumerate(axes)]
            boxes.append(
                Box(tuple(b.starts[i] for b, i in pick), tuple(b.shape[i] for b, i in pick))
            )
        types = [tensor(b.shape, element_type(v)) for v, b in zip(op.operands, boxes, strict=True)]
        trial = _rebuilt(op, Block(arg_types=types).args, part)
        try:
            trial.verify_()
        except VerifyException:
            return None
        finally:
            trial.drop_all_references()
        self.parts[op.results[0]] = part
        return boxes


@dataclass
class _Narrowing:
    """Ops done again on parts of their operands.

    Attributes:
        values: the part that took the place of a value.
        slices: parts cut out of values, each once.
        replaced: ops that nothing uses any more.
    """

    demand: _Demand
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    slices: dict[tuple[SSAValue, Box], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Box], SSAValue]
    )
    replaced: list[Operation] = field(default_factory=list[Operation])

    def pays(self, op: GraphOp) -> bool:
        """Whether there is work to leave out, in this op or in those before it."""
        heavy = op.fusion_kind is not FusionKind.INJECTIVE
        return heavy or any(value in self.values for value in op.operands)

    def narrow(self, op: GraphOp) -> None:
        """Put the op on parts of its operands in front of it."""
        boxes = self.demand.operands[op]
        result = op.results[0]
        part = self.demand.parts.get(result, Box.whole(result))
        if isinstance(op, SliceOp):
            new = self._sliced(op, part)
        else:
            operands = [self._part(v, b, op) for v, b in zip(op.operands, boxes, strict=True)]
            new = insert(_rebuilt(op, operands, part), op)
            remark("hoist-slices", op, f"{list(part.shape)} of {list(op.shape)} is used")
        new.name_hint = result.name_hint
        if part == Box.whole(result):
            result.replace_all_uses_with(new)
        else:
            self.values[result] = new
        self.replaced.append(op)

    def _part(self, value: SSAValue, box: Box, before: Operation) -> SSAValue:
        """A part of a value, of which a larger part may be all that there is."""
        start = Box.whole(value).starts
        if value in self.values:
            start = self.demand.parts[value].starts
            value = self.values[value]
        if box.shape == shape_of(value):
            return value
        if (value, box) not in self.slices:
            starts = [a - b for a, b in zip(box.starts, start, strict=True)]
            self.slices[value, box] = insert(SliceOp(value, starts, box.shape), before)
        return self.slices[value, box]

    def _sliced(self, op: SliceOp, part: Box) -> SSAValue:
        """A slice's used part, of the part that there is of its operand."""
        place = self.demand.parts[op.x].starts
        rows = zip(op.starts.get_values(), part.starts, op.strides, place, strict=True)
        starts = [start + own * step - base for start, own, step, base in rows]
        new = SliceOp(self.values[op.x], starts, part.shape, op.strides)
        if new.type == self.values[op.x].type and min(op.strides, default=1) == 1:
            new.erase()
            return self.values[op.x]
        return insert(new, op)


def _before_slice(op: SliceOp, box: Box) -> list[Box] | None:
    """What a slice takes of its operand for a part of its result."""
    if any(step < 1 for step in op.strides):
        return None
    rows = list(zip(op.starts.get_values(), box.starts, op.strides, strict=True))
    starts = tuple(start + own * step for start, own, step in rows)
    shape = tuple((n - 1) * step + 1 for n, step in zip(box.shape, op.strides, strict=True))
    return [Box(starts, shape)]


def _rebuilt(op: GraphOp, operands: list[SSAValue] | tuple[SSAValue, ...], part: Box) -> GraphOp:
    """The op on other operands, for a part of its result."""
    return type(op).create(
        operands=operands,
        result_types=[tensor(part.shape, element_type(op.results[0]))],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )


def _is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)
