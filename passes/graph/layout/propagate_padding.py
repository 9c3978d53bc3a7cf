"""Padding moved from the windows that need it to the ops that produce what they read.

A walk by hand, users first: borders that were given are what those before are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.attributes import FusionKind
from tcopt.dialects.graph.borders import Border
from tcopt.dialects.graph.constant import ConstantOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.slice import ConcatOp, PadOp, SliceOp
from tcopt.dialects.graph.types import element_type, shape_of
from tcopt.support.remarks import remark
from tcopt.support.rewriting import erase


@dataclass(frozen=True)
class PropagatePaddingPass(ModulePass):
    """Store what padded windows read inside of a border of what they pad it with.

    That is zeros, or the number that stands for zero among quantised ones.
    Convolutions copy their data in order to pad it. Here a value that they read gets the
    widest border that any of them needs, as the last step of what produces it: fused with
    it, that is a store at another place (see `lower-te-to-loop`), and no copy is left.
    Windows with less padding start inside of the border; other ops read a slice. A border
    around a concatenation is one around each of its parts.

        %r = graph.relu %c : tensor<1x4x8x8x16xf32>
        %y = graph.blocked_conv %r, %w {pads = [1, 1, 1, 1]} : tensor<1x4x8x8x16xf32>
        %z = graph.add %r, %y : tensor<1x4x8x8x16xf32>
    ->
        %r = graph.relu %c : tensor<1x4x8x8x16xf32>
        %p = graph.pad %r {low = [0, 0, 1, 1, 0], high = [0, 0, 1, 1, 0]} : ...10x10x16xf32>
        %y = graph.blocked_conv %p, %w : tensor<1x4x8x8x16xf32>
        %s = graph.slice %p {starts = [0, 0, 1, 1, 0]} : tensor<1x4x8x8x16xf32>
        %z = graph.add %s, %y : tensor<1x4x8x8x16xf32>

    A pooling that pads with zeros, or whose operand has no element below zero, reads them
    from the border too. It makes no copy, so it asks for a border only where no convolution
    of single elements would have to step over it.
    Inputs and results of the function, and values that are viewed under another shape, stay
    as they are.
    """

    name = "propagate-padding"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                _Propagation(function.body.block).run()


class _Propagation:
    """The propagation in one function, users before producers."""

    def __init__(self, body: Block):
        self.body = body
        self.nonnegative: set[SSAValue] = set()

    def run(self) -> None:
        for op in self.body.ops:
            if isinstance(op, GraphOp) and op.is_nonnegative(
                [operand in self.nonnegative for operand in op.operands]
            ):
                self.nonnegative.update(op.results)
        for op in reversed(list(self.body.ops)):
            if isinstance(op, GraphOp) and not op.is_border:
                border = self._wanted(op)
                if border is not None:
                    self._give(op, border)

    def _wanted(self, op: GraphOp) -> Border | None:
        """The border that the users of an op's result want around it."""
        if isinstance(op, ConstantOp) or op.is_view or len(op.results) != 1:
            return None
        if op.fusion_kind not in (FusionKind.COMPLEX_OUT_FUSABLE, FusionKind.INJECTIVE):
            return None
        users = [use.operation for use in op.results[0].uses]
        if any(user.parent is not self.body for user in users):
            return None  # Inside of a group of another processor.
        if not all(isinstance(u, GraphOp) and not _needs_memory(u) for u in users):
            return None
        borders = [(user, self._border(user, op.results[0])) for user in users]
        known = [(user, border) for user, border in borders if border is not None]
        known.sort(key=lambda each: not _copies(each[0]))
        total = Border((), ())
        for _, border in known:
            if total.suits(border):
                total = border if total.is_empty else total.union(border)
        if total.is_empty:
            return None
        copied = any(_copies(user) for user, _ in known)
        if not copied and any(border.is_empty for _, border in known):
            return None
        return total

    def _border(self, user: Operation, value: SSAValue) -> Border | None:
        """The border that one user could read; None if it reads the value itself."""
        assert isinstance(user, GraphOp)
        if any(operand is value for operand in user.operands[1:]):
            return None
        if isinstance(user, PadOp) and user.is_border:
            return Border(user.low.get_values(), user.high.get_values(), user.number or 0)
        return user.border(value in self.nonnegative)

    def _give(self, op: GraphOp, border: Border) -> None:
        """Put a border around an op's result and let all its users read that."""
        value = op.results[0]
        users = list(dict.fromkeys(use.operation for use in value.uses))
        inside = self._bordered(op, border)
        for user in users:
            own = self._border(user, value)
            if own is not None and not own.suits(border):
                own = None
            if isinstance(user, PadOp) and own == border:
                user.results[0].replace_all_uses_with(inside)
                erase(user)
            elif own is None or isinstance(user, PadOp):
                part = SliceOp(inside, border.low, shape_of(value))
                self._insert(part, user, before=True)
                for position, operand in enumerate(user.operands):
                    if operand is value:
                        user.operands[position] = part.results[0]
            else:
                assert isinstance(user, GraphOp)
                self._replace(user, user.inside_border(inside, border))
        if isinstance(op, ConcatOp) and not value.uses:
            erase(op)
        remark("propagate-padding", op, f"border {list(border.low)}, {list(border.high)}")

    def _bordered(self, op: GraphOp, border: Border) -> SSAValue:
        """An op's result inside of a border, defined right after the op."""
        if isinstance(op, ConcatOp) and not self._crosses(op, border):
            found = {x: self._pad(x, border, op, before=True) for x in dict.fromkeys(op.inputs)}
            last = ConcatOp([found[x] for x in op.inputs], axis=op.axis.value.data)
            self._insert(last, op)
            return last.results[0]
        return self._pad(op.results[0], border, op)

    def _pad(
        self, x: SSAValue, border: Border, beside: GraphOp, *, before: bool = False
    ) -> SSAValue:
        """A value inside of a border, defined beside an op."""
        number: ConstantOp | None = None
        if border.value:
            number = ConstantOp.literal(border.value, element_type(x))
            self._insert(number, beside, before=before)
        pad = PadOp(x, number, low=border.low, high=border.high)
        self._insert(pad, beside if number is None or before else number, before=before)
        if number is not None:
            pad.location, pad.result.name_hint = beside.location, number.result.name_hint
            number.result.name_hint = None
        return pad.results[0]

    def _crosses(self, op: ConcatOp, border: Border) -> bool:
        """Whether parts have neighbours where the border would be, or are not contiguous."""
        axis = op.axis.value.data
        return bool(border.low[axis] or border.high[axis] or not op.is_contiguous)

    # Edits

    def _insert(self, new: GraphOp, beside: Operation, *, before: bool = False) -> None:
        new.location = beside.location
        insert = self.body.insert_op_before if before else self.body.insert_op_after
        insert(new, beside)
        new.results[0].name_hint = beside.results[0].name_hint if not before else None

    def _replace(self, old: GraphOp, new: GraphOp) -> None:
        self._insert(new, old)
        if old.results[0] in self.nonnegative:
            self.nonnegative.add(new.results[0])
        old.results[0].replace_all_uses_with(new.results[0])
        erase(old)


def _needs_memory(user: GraphOp) -> bool:
    """Whether an op reads its operands as they lie in memory, so that a slice is a copy."""
    return user.is_view or user.fusion_kind is FusionKind.OPAQUE


def _copies(user: Operation) -> bool:
    return isinstance(user, GraphOp) and (user.copies_to_pad or user.is_border)
