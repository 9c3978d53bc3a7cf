"""Propagation of padding from windowed ops to the producers of their operands.

A plan assigns borders to values, from users to producers: the border of a concatenation is
requested from its parts.

A walk by hand: the plan of a function is applied as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.core.attributes import FusionKind, extents_in
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, shape_of
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.dialects.graph.movement.slice import ConcatOp, SliceOp
from tcopt.passes.graph.layout.borders import Border
from tcopt.passes.graph.layout.nonnegative import nonnegative_values
from tcopt.passes.graph.layout.padded_windows import PaddedWindow, padded_window
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.errors import UndecidedSize
from tcopt.support.ir.rewriting import (
    erase,
    function_bodies,
    insert,
    replace,
    replace_by,
    take_choices,
)
from tcopt.support.remarks import remark


@dataclass(frozen=True)
class PropagatePaddingPass(ModulePass):
    """Store the operands of padded windows with a border that holds the pad value.

    The pad value is zero, or the zero point of quantised values. A convolution copies its data in
    order to pad it. Instead, its operand gets the widest border that any of its users needs, as the
    last step of its producer: fused with the producer, that is a store at an offset (see
    `lower-te-to-loop`), and no copy is left. Windows with less padding start inside of the border;
    other ops read a slice. A border around a concatenation becomes a border around each of its
    parts.

        %r = graph.relu %c : tensor<1x4x8x8x16xf32>
        %y = graph.blocked_conv %r, %w {pads = [1, 1, 1, 1]} : tensor<1x4x8x8x16xf32>
        %z = graph.add %r, %y : tensor<1x4x8x8x16xf32>
    ->
        %r = graph.relu %c : tensor<1x4x8x8x16xf32>
        %p = graph.pad %r {low = [0, 0, 1, 1, 0], high = [0, 0, 1, 1, 0]} : ...10x10x16xf32>
        %y = graph.blocked_conv %p, %w : tensor<1x4x8x8x16xf32>
        %s = graph.slice %p {starts = [0, 0, 1, 1, 0]} : tensor<1x4x8x8x16xf32>
        %z = graph.add %s, %y : tensor<1x4x8x8x16xf32>

    A pooling that pads with zeros, or whose operand is non-negative, reads the pads from the border
    too. It makes no copy, so it requests a border only if no pointwise convolution would have to
    skip it. Inputs and results of the function, and values with reshaped views, are not changed.

    """

    name = "propagate-padding"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for body in function_bodies(op):
            give_borders(plan_borders(body))


@dataclass
class PaddingPlan:
    """The results of a block that get borders.

    Attributes:
        borders: border of each op's result, users before producers.
        inside: users that read inside of a value's border, with their windows; others read a slice.
    """

    borders: dict[GraphOp, Border] = field(default_factory=dict[GraphOp, Border])
    inside: dict[GraphOp, dict[GraphOp, PaddedWindow]] = field(
        default_factory=dict[GraphOp, dict[GraphOp, PaddedWindow]]
    )


def plan_borders(body: Block) -> PaddingPlan:
    """Choose the results that get borders, by the rules of `propagate-padding`."""
    plan = PaddingPlan()
    nonnegative = nonnegative_values(body)
    for op in reversed(body.ops):
        if isinstance(op, GraphOp) and _may_have_border(op):
            windows = _windows(op, plan, op.results[0] in nonnegative)
            total = Border((), ())
            for border in (each.border for each in windows.values()):
                if total.suits(border):
                    total = border if total.is_empty else total.union(border)
            if not total.is_empty:
                plan.borders[op] = total
                plan.inside[op] = {
                    user: each for user, each in windows.items() if each.border.suits(total)
                }
    return plan


def _may_have_border(op: GraphOp) -> bool:
    """Whether an op can store its result inside of a border for all of its users."""
    if op.is_border or isinstance(op, ConstantOp) or op.is_view or len(op.results) != 1:
        return False
    if op.fusion_kind not in (FusionKind.COMPLEX_OUT_FUSABLE, FusionKind.INJECTIVE):
        return False
    # A user in another block is in a group of another processor.
    return all(
        isinstance(user, GraphOp) and user.parent is op.parent and not _needs_memory(user)
        for user in _users(op)
    )


def _padded_window(op: GraphOp, is_nonnegative: bool) -> PaddedWindow | None:
    """Return the window of an op; None if its border depends on sizes."""
    try:
        window = padded_window(op, is_nonnegative)
    except UndecidedSize as error:
        remark(PropagatePaddingPass.name, op, error.message, missed=True)
        return None
    border = None if window is None else window.border
    return window if border is None or is_fixed((*border.low, *border.high)) else None


def _windows(op: GraphOp, plan: PaddingPlan, is_nonnegative: bool) -> dict[GraphOp, PaddedWindow]:
    """Return the window of each user of an op's result that could use a border; users that copy
    come first."""
    value = op.results[0]
    copied, others = dict[GraphOp, PaddedWindow](), dict[GraphOp, PaddedWindow]()
    for user in _users(op):
        assert isinstance(user, GraphOp)
        of_whole = plan.borders.get(user)
        if of_whole is not None and _borders_parts(user, of_whole):
            copied[user] = _without_pads(user, of_whole)
        elif all(operand is not value for operand in user.operands[1:]):
            own = _own_border(user)
            window = (
                _padded_window(user, is_nonnegative) if own is None else _without_pads(user, own)
            )
            if window is not None:
                (copied if window.copies else others)[user] = window
    if not copied and any(window.border.is_empty for window in others.values()):
        return {}
    return copied | others


def _without_pads(user: GraphOp, border: Border) -> PaddedWindow:
    """Return the window of an op that surrounds its operand with a border."""
    return PaddedWindow(user, border, lambda _: (), copies=True)


def give_borders(plan: PaddingPlan) -> None:
    """Pad each result by its planned border, and let its users read the padded value.

    Users come before producers, as the parts of a concatenation get its border.
    """
    for op, border in plan.borders.items():
        value, users = op.results[0], _users(op)
        inside = _bordered(op, border)
        for user in users:
            if _own_border(user) == border:
                replace_by(user, (inside,))
            elif user in plan.inside[op] and not isinstance(user, PadOp):
                assert isinstance(user, GraphOp)
                new = plan.inside[op][user].inside(inside, border)
                take_choices(new, user)
                replace(user, new)
            else:
                part = SliceOp(inside, border.low, shape_of(value))
                insert(part, user)
                for position, operand in enumerate(user.operands):
                    if operand is value:
                        user.operands[position] = part.results[0]
        if isinstance(op, ConcatOp) and not value.first_use:
            erase(op)
        number = f" of {border.value:g}" if border.value else ""
        text = f"border {list(border.low)}, {list(border.high)}{number}"
        remark(PropagatePaddingPass.name, op, text)


def _bordered(op: GraphOp, border: Border) -> SSAValue:
    """Return an op's result inside of a border, defined right after the op."""
    made: list[GraphOp]
    if not isinstance(op, ConcatOp) or not _borders_parts(op, border):
        made = _pad(op.results[0], border)
    else:
        found: dict[SSAValue, SSAValue] = {}
        for x in dict.fromkeys(op.inputs):
            for each in _pad(x, border):
                found[x] = insert(each, op)
        made = [ConcatOp([found[x] for x in op.inputs], axis=op.axis.value.data)]
    assert op.parent is not None
    for each in made:
        each.location = op.location
    op.parent.insert_ops_after(made, op)
    made[-1].results[0].name_hint = op.results[0].name_hint
    return made[-1].results[0]


def _pad(x: SSAValue, border: Border) -> list[GraphOp]:
    """Return the ops that pad a value by a border."""
    number = ConstantOp.literal(border.value, element_type(x)) if border.value else None
    pad = PadOp(x, number, low=border.low, high=border.high)
    return [pad] if number is None else [number, pad]


def _users(op: Operation) -> list[Operation]:
    return list(dict.fromkeys(use.operation for use in op.results[0].uses))


def _borders_parts(op: GraphOp, border: Border) -> bool:
    """Whether a border around an op's result is a border around each of its operands: a
    concatenation of contiguous parts with no border along its axis."""
    if not isinstance(op, ConcatOp):
        return False
    axis = op.axis.value.data
    return not (border.low[axis] or border.high[axis]) and op.is_contiguous


def _own_border(user: Operation) -> Border | None:
    """Return the border that a pad op adds, or None."""
    if not isinstance(user, PadOp) or not user.is_border:
        return None
    return Border(extents_in(user.low), extents_in(user.high), user.number or 0)


def _needs_memory(user: GraphOp) -> bool:
    """Whether an op needs its operands contiguous in memory, so that a slice would be copied."""
    return user.is_view or user.fusion_kind is FusionKind.OPAQUE
