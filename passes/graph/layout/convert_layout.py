"""Conversion of convolutions, and of the ops between them, to blocked channels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.forms import CONTRACTION, form_declined
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.tuning import BLOCK, tuned
from tcopt.dialects.graph.core.types import element_type, is_half, shape_of
from tcopt.dialects.graph.core.weights import WeightStore, weights_of
from tcopt.dialects.graph.movement.layout import SPATIAL, LayoutTransformOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.intrinsics import byte_group
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.passes.graph.layout.blocked_forms import contraction_in_blocks, contracts, form_in_blocks
from tcopt.passes.graph.layout.channel_blocks import (
    SpareLanes,
    block_of,
    fits_concat,
    is_of_bytes,
)
from tcopt.passes.graph.layout.kept_dims import keep_dims
from tcopt.passes.graph.layout.layout_cost import plain_ops
from tcopt.passes.graph.layout.plain_results import stays_plain
from tcopt.support.errors import PassFailedError, UndecidedSize
from tcopt.support.ir.rewriting import erase, insert, rewrite, take_choices
from tcopt.support.machines.machine import VectorUnits
from tcopt.support.remarks import remark


@dataclass(frozen=True)
class ConvertLayoutPass(ModulePass):
    """Store the channels of convolutions in blocks of a vector's size (NCHW to NCHW16c).

    A vector then holds channels of one pixel, whatever the image's width. Weights are reordered to
    match, which `fold-constants` does at compile time. Other ops that have a blocked form
    (`form_in_blocks`) are converted too, unless less data has to be converted if they stay
    plain (see `layout_cost.py`). A layout transform is inserted only where plain and blocked
    values meet.

        %c = graph.conv %x, %w : tensor<1x64x56x56xf32>
        %r = graph.relu %c : tensor<1x64x56x56xf32>
    ->
        %xb = graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"} : ...
        %wb = graph.layout_transform %w {src = "OIHW", dst = "OIHW16i16o"} : ...
        %c = graph.blocked_conv %xb, %wb : tensor<1x4x56x56x16xf32>
        %r = graph.relu %c : tensor<1x4x56x56x16xf32>
        %y = graph.layout_transform %r {src = "NCHW16c", dst = "NCHW"} : ...

    Few channels get the smallest block that holds them. If channels do not fill the last block,
    weights are padded with zeros, and what ops compute in the spare lanes is never used, as long as
    it is finite; see `channel_blocks.py`. Grouped convolutions other than depthwise keep their
    layout unless each group computes whole blocks, and read plain data unless each group reads
    whole blocks as well.

    An op with `tune.block = 0` is not converted.

    On a target with byte dot products but no vectors, such as a GPU, only convolutions of 8-bit
    integers are converted, to blocks of as many channels as one dot product sums (NCHW4c):
    neighbouring threads compute neighbouring pixels there, so other ops gain nothing from blocks.

    Options:
        block: maximum number of channels in a block; 0 chooses the vector length of the target.
    """

    name = "convert-layout"
    moves_values: ClassVar[bool] = True

    block: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.block < 0:
            raise PassFailedError(f"convert-layout: block = {self.block} is negative")
        target = target_facts_of(op)
        block = self.block
        if target is not None and not target.channel_lanes:
            block = byte_group(target.capabilities)
        elif target is not None and not block:
            block = target.channel_lanes
        if block < 2:
            return
        store = weights_of(op)
        machine = _Machine(block, target)
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                body = function.body.block
                keep_dims(body)
                plan = plan_layouts(body, machine, store)
                for each in plan.blocked:
                    remark(self.name, each, f"in blocks of up to {block} channels")
                for each in plan.plain:
                    remark(self.name, each, "plain: blocks would convert more data", missed=True)
                conversion = _Conversion(
                    body, machine, SpareLanes(store), set(plan.blocked), set(plan.plain)
                )
                rewrite(body, [ToPlannedLayout(conversion)], once=True)
                conversion.finish()


@dataclass(frozen=True)
class _Machine:
    """Properties of the target that a conversion uses.

    Attributes:
        lanes: maximum number of channels in a block.
        target: None if the module has none.
    """

    lanes: int
    target: TargetFacts | None

    @property
    def units(self) -> VectorUnits:
        """The vector units of the target, or typical ones."""
        return (None if self.target is None else self.target.vectors) or VectorUnits()

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of the target."""
        return frozenset() if self.target is None else self.target.capabilities

    def accepts(self, op: ContractionOp) -> bool:
        """Whether the target contracts blocked channels of this type; some do so only for bytes."""
        of_pixels = self.target is not None and not self.target.channel_lanes
        if of_pixels and not is_of_bytes(op):
            return False
        declined = form_declined(CONTRACTION, op, self.target)
        if declined is not None:
            remark(ConvertLayoutPass.name, op, f"plain: {declined}", missed=True)
        return declined is None


@dataclass
class LayoutPlan:
    """The ops of a function that compute on blocked channels.

    Attributes:
        blocked: ops to convert.
        plain: ops that could be converted, but are cheaper on plain data.
    """

    blocked: list[Operation]
    plain: list[Operation]


def plan_layouts(body: Block, machine: _Machine, store: WeightStore | None) -> LayoutPlan:
    """Choose the ops to convert, so that as little data as possible is moved between layouts.

    The ops that can be converted are found by adding all blocked forms, which are erased again.
    """
    ops = dict.fromkeys(body.ops)
    trial = _Conversion(body, machine, SpareLanes(store))
    can_be = [op for op in ops if trial.convert(op)]
    erase(*(op for op in body.ops if op not in ops))
    plain = plain_ops(body, set(can_be), contracts)
    # In program order.
    return LayoutPlan(
        [op for op in can_be if op not in plain], [op for op in can_be if op in plain]
    )


class ToPlannedLayout(RewritePattern):
    """Compute an op on blocked data if that is planned; otherwise give it plain operands.

        %r = graph.relu %c : tensor<1x64x56x56xf32>
    ->
        %b = graph.relu %d : tensor<1x4x56x56x16xf32>

    where `%d` is the blocked form of `%c`, and later blocked ops read `%b`.
    """

    def __init__(self, conversion: _Conversion):
        self.conversion = conversion

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if op.parent is self.conversion.body and self.conversion.visit(op):
            rewriter.has_done_action = True


class _Conversion:
    """Conversion of one function, op by op in program order.

    Attributes:
        blocked: blocked forms of plain values.
        plain: plain forms made from blocked values.
        computed: plain values whose producers were converted.
        spare: the number in the lanes beyond the last channel of each value.
        wanted: ops between convolutions that are converted even if all of their operands are plain.
        unwanted: ops that stay plain.
        machine: properties of the target.
    """

    def __init__(
        self,
        body: Block,
        machine: _Machine,
        spare: SpareLanes,
        wanted: Collection[Operation] = (),
        unwanted: Collection[Operation] = (),
    ):
        self.body = body
        self.machine = machine
        self.lanes = machine.lanes
        self.spare = spare
        self.wanted = wanted
        self.unwanted = unwanted
        self.blocked: dict[SSAValue, SSAValue] = {}
        self.plain: dict[SSAValue, SSAValue] = {}
        self.computed: set[SSAValue] = set()
        self.replaced: list[Operation] = []

    def visit(self, op: Operation) -> bool:
        """Convert an op, or give it plain operands; return whether anything changed."""
        return self.convert(op) or self._use_plain_operands(op)

    def convert(self, op: Operation) -> bool:
        """Insert the blocked form of an op before it; return whether there is one."""
        try:
            new = self._converted(op) if isinstance(op, GraphOp) else None
        except UndecidedSize as error:
            remark("convert-layout", op, error.message, missed=True)
            self._drop_detached()
            return False
        if new is None:
            return False
        new.location = op.location
        take_choices(new, op)
        self.body.insert_op_before(new, op)
        new.results[0].name_hint = op.results[0].name_hint
        self.blocked[op.results[0]] = new.results[0]
        self.computed.add(op.results[0])
        self.replaced.append(op)
        return True

    def _drop_detached(self) -> None:
        """Drop the operands of ops that were created but not inserted."""
        for op in self.body.ops:
            for use in [use for result in op.results for use in result.uses]:
                if use.operation.parent is None:
                    use.operation.drop_all_references()

    def finish(self) -> None:
        """Erase the replaced ops."""
        erase(*self.replaced)

    def _converted(self, op: GraphOp) -> GraphOp | None:
        if len(op.results) != 1 or not _fits_lanes(op.results[0]) or op in self.unwanted:
            return None
        if tuned(op, BLOCK) == 0:
            return None
        if isinstance(op, ContractionOp) and not self.machine.accepts(op):
            return None
        if contracts(op):
            return contraction_in_blocks(op, BlockLayouts(self, op))
        return self._between(op)

    # Ops between contractions

    def _between(self, op: GraphOp) -> GraphOp | None:
        if op not in self.wanted and not any(v in self.computed for v in op.operands):
            return None
        rank = len(op.shape)
        if rank - 2 not in SPATIAL or not all(self._fits(v, op) for v in op.operands):
            return None
        block = block_of(op.shape[1], self.lanes)
        spare = self._spare_number(op, block)
        if spare is None:
            return None
        known, last = len(self.blocked), op.prev_op
        new = form_in_blocks(op, [self._operand(v, rank, op) for v in op.operands], block)
        if new is None:
            while len(self.blocked) > known:
                self.blocked.popitem()
            self._erase_between(last, op)
        elif spare:
            self.spare.numbers[op.results[0]] = spare
        return new

    def _spare_number(self, op: GraphOp, block: int) -> float | None:
        """Return the number that the op puts into spare lanes; None if it must not be blocked."""
        channels = [shape_of(operand)[1:2] for operand in op.operands]
        along = [n for (n,) in channels if n != op.shape[1]] if all(channels) else []
        if not op.is_elementwise and along:
            parts = [n for (n,) in channels]
            if sum(parts) != op.shape[1] or not fits_concat(parts, self.lanes):
                return None
            return self.spare.of(op.operands[-1])
        return 0.0 if op.shape[1] % block == 0 else self.spare.result(op)

    def _erase_between(self, before: Operation | None, after: Operation) -> None:
        while (op := after.prev_op) is not before and op is not None:
            erase(op)

    def _fits(self, value: SSAValue, op: GraphOp) -> bool:
        shape, rank = shape_of(value), len(op.shape)
        if not _fits_lanes(value) or len(shape) > rank:
            return False
        if value in self.computed and len(shape) < rank:
            # The blocks of an image with fewer dimensions are along another axis.
            return False
        if all(extent == 1 for extent in shape):
            return True
        if len(shape) < rank - 1:
            # The reshape to blocks would shift the spatial dimensions.
            return False
        channels = shape[-(rank - 1)]
        return channels == op.shape[1] or (not op.is_elementwise and channels > 0)

    def _operand(self, value: SSAValue, rank: int, user: Operation) -> SSAValue:
        shape = shape_of(value)
        if all(extent == 1 for extent in shape):
            return self.plain_form(value, user)
        if len(shape) == rank and (value in self.blocked or not _is_per_channel(shape, rank)):
            return self.block(value, user)
        lead = shape[: len(shape) - (rank - 1)]
        channels = shape[-(rank - 1)]
        block = block_of(channels, self.lanes)
        places = shape[len(shape) - (rank - 2) :]
        if all(extent == 1 for extent in places) and channels % block == 0:
            inner = (channels // block, *places, block)
            return insert(ReshapeOp(value, (*lead, *inner)), user)
        layout = ("N" if lead else "") + f"C{SPATIAL[rank - 2]}"
        transform = LayoutTransformOp(value, src=layout, dst=f"{layout}{block}c")
        return insert(transform, user)

    # Values

    def block(self, value: SSAValue, user: Operation) -> SSAValue:
        """Return the blocked form of a value, made before `user` if it does not exist."""
        if value not in self.blocked:
            plain, stored = self._layouts(shape_of(value))
            transform = LayoutTransformOp(value, src=plain, dst=stored)
            self.blocked[value] = insert(transform, user)
        return self.blocked[value]

    def plain_form(self, value: SSAValue, user: Operation) -> SSAValue:
        """Return the plain form of a value, made before `user` if it does not exist."""
        if value not in self.computed:
            return value
        if value not in self.plain:
            shape = shape_of(value)
            plain, stored = self._layouts(shape)
            transform = LayoutTransformOp(self.blocked[value], src=stored, dst=plain, shape=shape)
            self.plain[value] = insert(transform, user)
        return self.plain[value]

    def _use_plain_operands(self, op: Operation) -> bool:
        found = [place for place, operand in enumerate(op.operands) if operand in self.computed]
        for place in found:
            op.operands[place] = self.plain_form(op.operands[place], op)
        return bool(found)

    def _layouts(self, shape: Sequence[int]) -> tuple[str, str]:
        plain = f"NC{SPATIAL[len(shape) - 2]}"
        return plain, f"{plain}{block_of(shape[1], self.lanes)}c"


class BlockLayouts:
    """Layouts of operands for an op that is converted to blocks of channels."""

    def __init__(self, conversion: _Conversion, op: GraphOp):
        self._conversion = conversion
        self._op = op

    @property
    def lanes(self) -> int:
        """Maximum number of channels in a block: the lanes of a full vector."""
        return self._conversion.lanes

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of the target."""
        return self._conversion.machine.capabilities

    def block_of(self, channels: int) -> int:
        """Return the block size of a value with `channels` channels."""
        return block_of(channels, self._conversion.lanes)

    def is_blocked(self, value: SSAValue) -> bool:
        """Whether a value is computed in blocks, so that its plain layout costs a copy."""
        return value in self._conversion.computed

    def blocked(self, value: SSAValue) -> SSAValue:
        """Convert a value [N, C, ...] to [N, C / block, ..., block]."""
        return self._conversion.block(value, self._op)

    def plain(self, value: SSAValue) -> SSAValue:
        """Return a value in the layout without blocks."""
        return self._conversion.plain_form(value, self._op)

    def stays_plain(self, op: GraphOp, wasted: float) -> bool:
        """Whether an op should compute on plain data: its results are needed in plain layout, and
        the conversions would cost more than the `wasted` vector multiplications on plain data."""
        machine = self._conversion.machine
        return stays_plain(op, wasted, machine.lanes, machine.units)

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op before the one that is converted, and return its result."""
        return insert(op, self._op)


def _fits_lanes(value: SSAValue) -> bool:
    """Whether a block of elements fits a vector: f32 and narrower types."""
    element = element_type(value)
    if isinstance(element, IntegerType):
        return 8 <= element.bitwidth <= 32
    return element == f32 or is_half(element)


def _is_per_channel(shape: Sequence[int], rank: int) -> bool:
    return all(extent == 1 for axis, extent in enumerate(shape) if axis != 1) and len(shape) == rank
