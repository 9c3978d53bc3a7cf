"""Fusion of graph operators into groups, by the rules of the TVM paper, section 3."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FixedBitwidthType, ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from tcopt.dialects.graph.control.group import GroupOp, YieldOp
from tcopt.dialects.graph.core.attributes import FusionKind
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.tuning import FUSE, tuned
from tcopt.dialects.graph.core.types import bytes_of, shape_of, type_of
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.passes.graph.fusion.fusion_remarks import remark_groups
from tcopt.passes.graph.fusion.joined_rows import join_rows
from tcopt.passes.graph.fusion.permuted_stores import (
    may_permute,
    stores_apart,
    stores_vectors,
)
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.ir.rewriting import function_bodies, move, rewrite
from tcopt.support.remarks import listening


@dataclass(frozen=True)
class FuseOpsPass(ModulePass):
    """Group operators; each group becomes one kernel.

    - A complex-out-fusable op (convolution, matmul) is fused with the elementwise ops of its own
      shape that its result goes through.
    - Two contractions with ops on whole rows between, as in attention, are one group if a schedule
      rule of the target computes a few rows at a time, and estimates that this is faster
      (`joined_rows.py`).
    - A reduction is fused with the injective ops that produce its input, and with the users of its
      result: elementwise ops, and further reductions along the same axes, so that a normalization
      made of small ops is one kernel. If there are few rows, ops on whole rows are not fused,
      because other threads could help with them.
    - Injective ops fuse with one another.
    - A border of one value (`graph.pad`) is fused with its producer, and with nothing else.
    - Every group includes the slices that only it reads. A group with a contraction also includes
      ops that widen its operands' elements, such as a dequantisation. Slices of contiguous memory
      before a contraction need no group.
    - A contraction is fused with ops that permute its result (a transpose with the views around it,
      or the conversion from channel blocks) if vectors can be stored in that order: it then writes
      the elements there, and nothing is moved. That needs a target, which defines the vector
      length. On a GPU, they are also fused if storing single elements is estimated to take less
      time than another launch, and so are elementwise ops after them whose other operands are
      broadcast, such as a bias or a cast.
    - An op with `tune.fuse = 0` is not fused.
    - An opaque op is not fused. Constants, views (reshape) and concatenations in memory stay
      outside of groups. So does a slice of contiguous memory that would be a kernel by itself: it
      is a view, unless it is a result or a part of a concatenation, which is written in place.

    A group has one result. An op joins only if its result is used only in the group, on every path:
    diamonds fuse, and nothing is computed twice. The second operand of an elementwise op may have
    any producer, so the add of a residual connection joins the later of its two convolutions.

    A group is placed at its last op, after all of its inputs, so groups cannot depend on each other
    in a cycle.

        %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %a = graph.add %c, %b : tensor<1x8x4x4xf32>
        %r = graph.relu %a : tensor<1x8x4x4xf32>
        %s = graph.softmax %r {axis = 1} : tensor<1x8x4x4xf32>
    ->
        %r = graph.group kind = complex_out_fusable {
          %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
          %a = graph.add %c, %b : tensor<1x8x4x4xf32>
          %0 = graph.relu %a : tensor<1x8x4x4xf32>
          graph.yield %0 : tensor<1x8x4x4xf32>
        } : tensor<1x8x4x4xf32>
        %s = graph.group kind = reduction {...}

    and for a target

        %m = graph.matmul %x, %w : tensor<128x768xf32>
        %h = graph.reshape %m : tensor<128x12x64xf32>
        %t = graph.transpose %h {perm = [1, 0, 2]} : tensor<12x128x64xf32>
    ->
        %t = graph.group kind = complex_out_fusable {
          %m = graph.matmul %x, %w : tensor<128x768xf32>
          %h = graph.reshape %m : tensor<128x12x64xf32>
          %0 = graph.transpose %h {perm = [1, 0, 2]} : tensor<12x128x64xf32>
          graph.yield %0 : tensor<12x128x64xf32>
        } : tensor<12x128x64xf32>

    Options:
        max_ops: maximum number of operators in a group.
    """

    name = "fuse-ops"

    max_ops: int = 64

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        for body in function_bodies(op):
            plan = plan_groups(body, self.max_ops, target)
            rewrite(body, [BuildGroup(plan)], once=True)


@dataclass
class FusionPlan:
    """The planned groups of a block; each group in program order."""

    groups: list[list[Operation]]


def plan_groups(body: Block, max_ops: int = 64, target: TargetFacts | None = None) -> FusionPlan:
    """Choose the groups of a function's body, by the rules of `fuse-ops`."""
    return _Fusion(body, max_ops, target).run()


class BuildGroup(RewritePattern):
    """Move the operators of a planned group into a group op, at the position of the last.

        %a = graph.add %x, %b : tensor<4x8xf32>
        %r = graph.relu %a : tensor<4x8xf32>
    ->
        %r = graph.group kind = injective {
          %a = graph.add %x, %b : tensor<4x8xf32>
          %0 = graph.relu %a : tensor<4x8xf32>
          graph.yield %0 : tensor<4x8xf32>
        } : tensor<4x8xf32>
    """

    def __init__(self, plan: FusionPlan):
        self.by_last = {group[-1]: group for group in plan.groups}

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOp, rewriter: PatternRewriter) -> None:
        members = self.by_last.pop(op, None)
        if members is None:
            return
        body = Block()
        fused = GroupOp(_kind(members), Region(body), op.result_types)
        fused.location = max(members, key=_work).location
        rewriter.insert(fused, InsertPoint.after(op))
        move(members, body)
        for old, new in zip(op.results, fused.results, strict=True):
            new.name_hint, old.name_hint = old.name_hint, None
            rewriter.replace_all_uses_with(old, new)
        body.add_op(YieldOp(*op.results))


def _kind(members: Sequence[Operation]) -> FusionKind:
    """Return the most complex fusion kind of a group's operators."""
    kinds = {op.fusion_kind for op in members if isinstance(op, GraphOp)}
    if FusionKind.COMPLEX_OUT_FUSABLE in kinds:
        return FusionKind.COMPLEX_OUT_FUSABLE
    return next(iter(kinds - {FusionKind.INJECTIVE}), FusionKind.INJECTIVE)


class _Fusion:
    """Grouping of one block; ops are identified by their index in it."""

    def __init__(self, block: Block, max_ops: int, target: TargetFacts | None):
        self.block = block
        self.max_ops = max_ops
        self.target = target
        self.ops = list(block.ops)
        self.place: dict[Operation, int] = {op: place for place, op in enumerate(self.ops)}
        self.grouped: set[int] = set()
        self.groups: list[list[int]] = []

    def run(self) -> FusionPlan:
        """Form the groups: contractions first, then reductions, then injective ops."""
        for place, op in enumerate(self.ops):
            if tuned(op, FUSE) == 0 and self.fusable(place) is not None:
                self.claim([place])
        for kind in (FusionKind.COMPLEX_OUT_FUSABLE, FusionKind.REDUCTION):
            places = list(self.candidates(kind))
            # The first of several reductions along one row is the anchor of the others.
            for place in reversed(places) if kind is FusionKind.REDUCTION else places:
                if self.fusable(place) is None:
                    continue
                if kind is FusionKind.REDUCTION:
                    self.claim(self.backward(self.forward(place)))
                else:
                    group = self.with_border(self.permuted(self.forward(place)))
                    self.claim(self.with_parts(group))
        for place in self.candidates(FusionKind.INJECTIVE):
            group = self.backward([place])
            if len(group) > 1 or not self.is_subview(place):
                self.claim(group)
        for place in self.candidates(FusionKind.OPAQUE):
            self.claim([place])
        groups = [[self.ops[place] for place in sorted(group)] for group in self.groups]
        if self.target is not None:
            groups = join_rows(groups, self.max_ops, self.target, FuseOpsPass.name)
        if listening():
            remark_groups(groups, FuseOpsPass.name)
        return FusionPlan(groups)

    def candidates(self, kind: FusionKind) -> Iterator[int]:
        """Yield the indices of ungrouped ops of a kind, last first."""
        for place in range(len(self.ops) - 1, -1, -1):
            op = self.fusable(place)
            if op is not None and op.fusion_kind is kind:
                yield place

    def fusable(self, place: int) -> GraphOp | None:
        """Return the op at an index if it may join a group."""
        op = self.ops[place]
        if place in self.grouped or not isinstance(op, GraphOp) or isinstance(op, ConstantOp):
            return None
        return None if op.is_view or op.is_joined or op.is_opaque else op

    def claim(self, group: list[int]) -> None:
        """Make a group of the ops at these indices."""
        self.groups.append(group)
        self.grouped.update(group)

    def users(self, place: int) -> set[int]:
        """Return the indices of the ops that use a result of an op, also in their regions."""
        uses = (use.operation for result in self.ops[place].results for use in result.uses)
        there = (self.block.find_ancestor_op_in_block(op) for op in uses)
        return {self.place[op] for op in there if op is not None}

    def is_subview(self, place: int) -> bool:
        """Whether an op can be a view, and some op reads it as one."""
        op = self.ops[place]
        return isinstance(op, GraphOp) and op.subview_offset is not None and self._is_read(place)

    def _is_read(self, place: int) -> bool:
        """Whether some user, directly or through views, reads a result without a copy."""
        for user in self.users(place):
            op = self.ops[user]
            if isinstance(op, GraphOp) and op.is_view:
                if self._is_read(user):
                    return True
            elif not (isinstance(op, func.ReturnOp) or (isinstance(op, GraphOp) and op.is_joined)):
                return True
        return False

    def forward(self, anchor: int) -> list[int]:
        """Return the anchor and the later ops that may be fused, each post-dominating the group."""
        group = [anchor]
        while (step := self._next_exit(group)) is not None:
            group += step
        return group

    def permuted(self, group: list[int]) -> list[int]:
        """Extend a group by the ops that permute its result, if it can store it in that order."""
        anchor, last = self.ops[group[0]], self.ops[group[-1]]
        assert isinstance(anchor, GraphOp) and isinstance(last, GraphOp)
        if self.target is None or not anchor.stores_anywhere:
            return group
        element = last.type.element_type
        if not isinstance(element, FixedBitwidthType):
            return group
        # Adjacent threads store adjacent elements, and hold no vectors to transpose.
        threads = self.target.threads if self.target.lanes_are_threads else None
        lanes = self.target.vector_lanes(element.bitwidth)
        places: list[int] = []
        ops: list[GraphOp] = []
        best, is_stored = group, False
        users = self.users(group[-1])
        while len(users) == 1 and len(group) + len(places) < self.max_ops:
            (place,) = users
            op = self.ops[place]
            if place in self.grouped or not isinstance(op, GraphOp):
                break
            if is_stored and threads is not None and _is_on_elements(op):
                # It is computed on each element before that is stored.
                places.append(place)
                best = [*group, *places]
            elif may_permute(op):
                places.append(place)
                ops.append(op)
                if not op.is_view:
                    is_stored = stores_vectors(ops, lanes, transposes=threads is None) or (
                        threads is not None and stores_apart(ops, threads)
                    )
                    best = [*group, *places] if is_stored else best
            else:
                break
            users = self.users(place)
        return best

    def with_border(self, group: list[int]) -> list[int]:
        """Extend a group by the border around its result, if nothing else uses the result."""
        users = self.users(group[-1])
        op = self.fusable(min(users)) if len(users) == 1 else None
        return [*group, *users] if op is not None and op.is_border else group

    def with_parts(self, group: list[int]) -> list[int]:
        """Extend a group by the slices that only it reads, and by ops that widen its operands."""
        members, pending = set(group), list(group)
        while pending:
            place = pending.pop()
            for operand in self.ops[place].operands:
                owner = operand.owner
                producer = self.place.get(owner) if isinstance(owner, Operation) else None
                op = None if producer is None else self.fusable(producer)
                if op is None or producer is None or producer in members:
                    continue
                is_read_in_place = op.is_part and op.subview_offset is None
                joins = is_read_in_place or (place != group[0] and _widens(op))
                if joins and self.users(producer) <= members and len(members) < self.max_ops:
                    members.add(producer)
                    pending.append(producer)
        return sorted(members)

    def _next_exit(self, group: list[int]) -> list[int] | None:
        """Return the ops from a group's last one to its next post-dominator, if all may be fused.

        Users are visited in order. When every unvisited user uses the newest op alone, that op
        post-dominates the earlier ones.
        """
        last = group[-1]
        anchor = self.ops[group[0]]
        assert isinstance(anchor, GraphOp)
        step: list[int] = []
        queued = self.users(last)
        heap = list(queued)
        heapq.heapify(heap)
        open_users: dict[int, set[int]] = {last: set(queued)}
        while heap:
            place = heapq.heappop(heap)
            op = self.fusable(place)
            if op is None or not _follows(op, anchor):
                return None
            step.append(place)
            if len(group) + len(step) > self.max_ops:
                return None
            for pending in open_users.values():
                pending.discard(place)
            own = self.users(place)
            if all(not pending for pending in open_users.values()):
                return step
            open_users[place] = own
            for user in own - queued:
                queued.add(user)
                heapq.heappush(heap, user)
        return None

    def backward(self, group: list[int]) -> list[int]:
        """Extend a group by the injective ops whose results are used only in it."""
        members = set(group)
        heap = [-place for place in group]
        heapq.heapify(heap)
        seen = set(group)
        while heap:
            place = -heapq.heappop(heap)
            if place not in members:
                op = self.fusable(place)
                full = len(members) >= self.max_ops
                if op is None or op.fusion_kind is not FusionKind.INJECTIVE or full:
                    continue
                if op.is_border or not self.users(place) <= members:
                    continue
                members.add(place)
            for operand in self.ops[place].operands:
                owner = operand.owner
                producer = self.place.get(owner) if isinstance(owner, Operation) else None
                if producer is not None and producer not in seen:
                    seen.add(producer)
                    heapq.heappush(heap, -producer)
        return sorted(members)


def _widens(op: GraphOp) -> bool:
    """Whether an elementwise op reads fewer bytes than it writes."""
    read = sum(bytes_of(type_of(operand)) for operand in op.operands)
    return op.is_elementwise and read < bytes_of(op.type)


def _is_on_elements(op: GraphOp) -> bool:
    """Whether an op computes each element from the same one of its first operand, and perhaps from
    operands that are broadcast, such as a bias."""
    x, *others = op.operands
    broadcast = all(bytes_of(type_of(other)) < bytes_of(type_of(x)) for other in others)
    return op.is_elementwise and op.shape == shape_of(x) and broadcast


FEW_ROWS = 16
"""Number of rows of a reduction that keeps the threads busy."""


def _follows(op: GraphOp, anchor: GraphOp) -> bool:
    """Whether an op may be fused into a group that started with the anchor."""
    if op.fills_registers and anchor.stores_anywhere:
        return False
    if op.is_elementwise and op.shape == anchor.shape:
        return True
    axes = anchor.reduced_axes
    if not axes:
        return False
    shape = shape_of(anchor.operands[0])
    if op.reduced_axes:
        return op.reduced_axes == axes and shape_of(op.operands[0]) == shape
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return op.is_elementwise and (
        op.shape == kept or (op.shape == shape and upper_bound(math.prod(kept)) >= FEW_ROWS)
    )


def _work(op: Operation) -> int:
    return upper_bound(op.work()) if isinstance(op, GraphOp) else 0
