"""Motion of slices before the ops whose results they slice.

A walk by hand: the plan of a function is applied as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import FusionKind, extents_in
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import as_extents, element_type, shape_of, tensor
from tcopt.dialects.graph.movement.slice import SliceOp
from tcopt.dialects.size import are_known_at
from tcopt.passes.graph.motion.followed_axes import followed_axes
from tcopt.support.arithmetic.sizes import maximum, minimum, symbols_of, upper_bound
from tcopt.support.ir.rewriting import erase, function_bodies, insert
from tcopt.support.remarks import remark

PART = 2
"""Minimum reduction of an op's result, as a factor: the work saved must outweigh the slices of its
operands."""


class SliceWindow(NamedTuple):
    """A rectangular part of a tensor: its start indices and shape."""

    starts: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def whole(cls, value: SSAValue) -> SliceWindow:
        """Return the window of all of a value."""
        shape = shape_of(value)
        return cls((0,) * len(shape), shape)

    def union(self, other: SliceWindow) -> SliceWindow:
        """Return the smallest window that contains both."""
        starts = as_extents(map(minimum, self.starts, other.starts))
        ends = as_extents(map(maximum, self.ends, other.ends))
        extents = (end - start for end, start in zip(ends, starts, strict=True))
        return SliceWindow(tuple(starts), tuple(extents))

    @property
    def ends(self) -> tuple[int, ...]:
        """End indices of the axes (one past the last)."""
        return tuple(s + n for s, n in zip(self.starts, self.shape, strict=True))


@dataclass(frozen=True)
class HoistSlicesPass(ModulePass):
    """Compute only the part of a result that is used.

    An op of whose result only a slice is used is computed on slices of its operands, and so are the
    producers of these, as long as each needs only a part of its operands. Only reductions and
    contractions make that worthwhile; elementwise ops are included together with their producers.

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
        for body in function_bodies(op):
            plan = plan_parts(body)
            if plan.operands:
                parts = _Parts(plan)
                for each in plan.operands:
                    parts.compute(each)
                for whole in reversed(plan.operands):
                    if not whole.results[0].first_use:
                        erase(whole)


@dataclass
class HoistPlan:
    """The ops of a block that are computed on parts of their operands.

    Attributes:
        operands: operand windows of each such op, in program order.
        parts: the window of each value that is used.
    """

    operands: dict[GraphOp, list[SliceWindow]] = field(
        default_factory=dict[GraphOp, list[SliceWindow]]
    )
    parts: dict[SSAValue, SliceWindow] = field(default_factory=dict[SSAValue, SliceWindow])

    def part(self, op: GraphOp) -> SliceWindow:
        """Return the window of an op's result that is used."""
        return self.parts.get(op.results[0], SliceWindow.whole(op.results[0]))


def plan_parts(body: Block) -> HoistPlan:
    """Choose the ops to compute on parts of their operands, by the rules of `hoist-slices`."""
    plan = HoistPlan()
    if not any(isinstance(op, SliceOp) for op in body.ops):
        return plan
    demand = _Demand(plan.parts)
    for op in reversed(list(body.ops)):
        demand.visit(op)
    partial: set[SSAValue] = set()
    for op in body.ops:
        if not isinstance(op, GraphOp) or op not in demand.operands:
            continue
        # Work can be saved, in this op or in its producers.
        heavy = op.fusion_kind is not FusionKind.INJECTIVE
        if heavy or not partial.isdisjoint(op.operands):
            plan.operands[op] = demand.operands[op]
            if plan.part(op) != SliceWindow.whole(op.results[0]):
                partial.add(op.results[0])
    return plan


@dataclass
class _Demand:
    """Backward analysis of the parts of values that are used.

    Attributes:
        parts: window of each value that the ops visited so far use.
        operands: operand windows of the ops that can be computed on parts.
    """

    parts: dict[SSAValue, SliceWindow] = field(default_factory=dict[SSAValue, SliceWindow])
    operands: dict[Operation, list[SliceWindow]] = field(
        default_factory=dict[Operation, list[SliceWindow]]
    )

    def visit(self, op: Operation) -> None:
        """Find the parts of its operands that an op uses; all users must have been visited."""
        windows = self._used(op)
        if windows is None:
            windows = [
                SliceWindow.whole(v) if _is_tensor(v) else SliceWindow((), ()) for v in op.operands
            ]
        else:
            self.operands[op] = windows
        for value, window in zip(op.operands, windows, strict=True):
            known = self.parts.get(value)
            self.parts[value] = window if known is None else known.union(window)

    def _used(self, op: Operation) -> list[SliceWindow] | None:
        """Return sufficient windows of the operands; None if all of each operand is needed."""
        if not isinstance(op, GraphOp) or len(op.results) != 1 or 0 in op.shape:
            return None
        window = self.parts.get(op.results[0])
        if isinstance(op, SliceOp):
            window = window or SliceWindow.whole(op.results[0])
            return _before_slice(op, window) if _is_known_at(window, op) else None
        if window is None or not _is_part(window.shape, op.shape):
            return None
        axes = [
            i for i, (n, all) in enumerate(zip(window.shape, op.shape, strict=True)) if n != all
        ]
        followed = followed_axes(op, axes)
        if followed is None:
            return None
        return self._checked(op, window, [*map(tuple, followed)])

    def _checked(
        self, op: GraphOp, window: SliceWindow, followed: list[tuple[int | None, ...]]
    ) -> list[SliceWindow] | None:
        """Return the operand windows if the op rebuilt on them verifies; otherwise None."""
        cut = {axis for each in followed for axis in each if axis is not None}
        whole = SliceWindow.whole(op.results[0])
        starts = [(window if a in cut else whole).starts[a] for a in range(len(op.shape))]
        shape = [(window if a in cut else whole).shape[a] for a in range(len(op.shape))]
        part = SliceWindow(tuple(starts), tuple(shape))
        if not _is_part(part.shape, op.shape) or not _is_known_at(part, op):
            return None
        windows: list[SliceWindow] = []
        for value, axes in zip(op.operands, followed, strict=True):
            own = SliceWindow.whole(value)
            pick = [(part, a) if a is not None else (own, i) for i, a in enumerate(axes)]
            windows.append(
                SliceWindow(tuple(b.starts[i] for b, i in pick), tuple(b.shape[i] for b, i in pick))
            )
        types = [
            tensor(b.shape, element_type(v)) for v, b in zip(op.operands, windows, strict=True)
        ]
        trial = op.with_operands(Block(arg_types=types).args, part.shape)
        try:
            trial.verify_()
        except VerifyException:
            return None
        finally:
            trial.drop_all_references()
        self.parts[op.results[0]] = part
        return windows


class _Parts:
    """Applies a plan; the original ops remain, as their users may come later."""

    def __init__(self, plan: HoistPlan):
        self.plan = plan
        self.values: dict[SSAValue, SSAValue] = {}
        self.slices: dict[tuple[SSAValue, SliceWindow], SSAValue] = {}

    def compute(self, op: GraphOp) -> None:
        """Compute an op on the planned parts of its operands."""
        result, part = op.results[0], self.plan.part(op)
        if isinstance(op, SliceOp):
            new = self._sliced(op, part)
        else:
            rows = zip(op.operands, self.plan.operands[op], strict=True)
            operands = [self._part(value, window, op) for value, window in rows]
            new = insert(op.with_operands(operands, part.shape), op)
            remark("hoist-slices", op, f"{list(part.shape)} of {list(op.shape)} is used")
        new.name_hint = result.name_hint
        if part == SliceWindow.whole(result):
            result.replace_all_uses_with(new)
        else:
            self.values[result] = new

    def _part(self, value: SSAValue, window: SliceWindow, user: GraphOp) -> SSAValue:
        """Return a window of a value, cut out of the part that was computed."""
        start = SliceWindow.whole(value).starts
        if value in self.values:
            start = self.plan.parts[value].starts
            value = self.values[value]
        if window.shape == shape_of(value):
            return value
        if (value, window) not in self.slices:
            starts = [a - b for a, b in zip(window.starts, start, strict=True)]
            self.slices[value, window] = insert(SliceOp(value, starts, window.shape), user)
        return self.slices[value, window]

    def _sliced(self, op: SliceOp, part: SliceWindow) -> SSAValue:
        """Return the used part of a slice, taken from the computed part of its operand."""
        place = self.plan.parts[op.x].starts
        rows = zip(extents_in(op.starts), part.starts, op.strides, place, strict=True)
        starts = [start + own * step - base for start, own, step, base in rows]
        new = SliceOp(self.values[op.x], starts, part.shape, op.strides)
        if new.type == self.values[op.x].type and min(op.strides, default=1) == 1:
            new.erase()
            return self.values[op.x]
        return insert(new, op)


def _is_part(shape: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether computing a part saves enough work; sizes are taken at their upper bounds."""
    return upper_bound(prod(shape)) * PART <= upper_bound(prod(whole))


def _is_known_at(window: SliceWindow, op: Operation) -> bool:
    """Whether all sizes of a window are defined before an op."""
    extents = as_extents((*window.starts, *window.shape))
    return are_known_at((symbol for extent in extents for symbol in symbols_of(extent)), op)


def _before_slice(op: SliceOp, window: SliceWindow) -> list[SliceWindow] | None:
    """Return the window of its operand that a slice needs for a part of its result."""
    if any(step < 1 for step in op.strides):
        return None
    rows = list(zip(extents_in(op.starts), window.starts, op.strides, strict=True))
    starts = tuple(start + own * step for start, own, step in rows)
    shape = tuple((n - 1) * step + 1 for n, step in zip(window.shape, op.strides, strict=True))
    return [SliceWindow(starts, shape)]


def _is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)
