"""The partition of a model between the host and an accelerator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.group import PLACE, GroupOp, YieldOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.interfaces.placement import Offload
from tcopt.dialects.graph.types import bytes_of, type_of
from tcopt.dialects.target import accelerator_of
from tcopt.dialects.target.accelerator import AcceleratorFacts, MatrixUnit
from tcopt.support.remarks import remark
from tcopt.support.rewriting import function_bodies, rewrite

HOST_PRODUCTS = 6
"""Multiplications that the host does in a cycle of the accelerator: in the TVM paper's figure 21
the ARM of a Pynq board takes 2.87 s for the 1.7 G products of ResNet-18's convolutions, while the
accelerator's clock has 100 MHz."""

HOST_BYTES = 8
"""Bytes that the host moves between layouts in a cycle of the accelerator."""

CALL = 1000
"""Cycles of the accelerator that a call of it takes the host."""


@dataclass(frozen=True)
class PartitionPass(ModulePass):
    """Gives the operators that an accelerator computes in less time to it.

        %c = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x32x8x8xi32>
    ->
        %b = graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"} : tensor<1x1x8x8x16xi8>
        %v = ... %w as blocks ...
        %p = graph.group kind = complex_out_fusable {
          %0 = graph.blocked_conv %b, %v {pads = [1, 1, 1, 1], result_element = i32} : ...
          graph.yield %0 : tensor<1x2x8x8x16xi32>
        } attributes {place = "vdla"} : tensor<1x2x8x8x16xi32>
        %c = graph.layout_transform %p {src = "NCHW16c", dst = "NCHW"} : tensor<1x32x8x8xi32>

    An operator says itself whether a matrix unit computes it, and in which form
    (`GraphOp.on_matrix_unit`). It is given to the accelerator where its products there, or what it
    moves through the port if that takes longer, and what the host does to lay data out in blocks
    and back, take fewer cycles than its products on the host. Results are sums of 32 bits, which
    the host goes on with, so they are the same integers. A group's place is its attribute `place`;
    the function that it becomes has the accelerator as its target.

    Nothing is done in a module that names no accelerator (`tcopt.accelerator`, see
    `set-accelerator`), or one that does not store 32 bits.

    Options:
        host_products: how many products the host computes in a cycle of the accelerator.
        all_of_them: whether the accelerator gets all operators that it can compute.
        print_plan: print what each operator would take to stderr.
    """

    name = "partition"
    moves_values: ClassVar[bool] = True

    host_products: int = HOST_PRODUCTS
    all_of_them: bool = False
    print_plan: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        facts = accelerator_of(op)
        if not isinstance(facts, AcceleratorFacts) or facts.matrix_unit is None:
            return
        for body in function_bodies(op):
            plan = plan_partition(body, facts, self.host_products, every=self.all_of_them)
            if self.print_plan:
                print(plan, file=sys.stderr)
            rewrite(body, [PlaceOnAccelerator(plan)], once=True)


@dataclass(frozen=True)
class Placement:
    """An operator that an accelerator can compute.

    Attributes:
        form: how it does.
        there: cycles if the accelerator computes it, with what it costs to cross over.
        here: cycles if the host does.
    """

    form: Offload
    there: int
    here: int
    is_there: bool


@dataclass
class PartitionPlan:
    """Which operators an accelerator computes."""

    place: str
    placements: dict[Operation, Placement] = field(default_factory=dict[Operation, Placement])

    def __str__(self) -> str:
        chosen = sum(each.is_there for each in self.placements.values())
        lines = [f"partition: {chosen} of {len(self.placements)} ops on {self.place}"]
        for op, each in self.placements.items():
            where = self.place if each.is_there else "host"
            lines.append(
                f"  {where}: {op.name} -> {op.results[0].type}: {each.there} cycles on "
                f"{self.place}, {each.here} on the host"
            )
        return "\n".join(lines)


def plan_partition(
    body: Block, facts: AcceleratorFacts, host_products: int, *, every: bool = False
) -> PartitionPlan:
    """Choose the operators of a function's body that the accelerator computes."""
    plan, unit = PartitionPlan(facts.kind), facts.matrix_unit
    assert unit is not None, "asked before"
    for op in body.ops:
        if not isinstance(op, GraphOp):
            continue
        form = op.on_matrix_unit(unit.inner, unit.lanes)
        if "i32" not in unit.results and not isinstance(form, str):
            form = f"{facts.kind} stores no sums of 32 bits"
        if isinstance(form, str):
            if op.COUNTS_ON:
                remark(PartitionPass.name, op, f"on the host: {form}", missed=True)
            continue
        there, here = _cycles(op, form, facts, unit), op.work() // (2 * host_products)
        placement = Placement(form, there, here, every or there < here)
        plan.placements[op] = placement
        where = facts.kind if placement.is_there else "the host"
        text = f"on {where}: {there} cycles on {facts.kind}, {here} on the host"
        remark(PartitionPass.name, op, text, missed=not placement.is_there)
    return plan


def _cycles(op: GraphOp, form: Offload, facts: AcceleratorFacts, unit: MatrixUnit) -> int:
    """Cycles for which the accelerator and the host are busy with an operator."""
    products = form.products * unit.cycles // unit.products
    moved = sum(_bytes(value) for each in form.body for value in _outside(each, form))
    port = facts.transfer_cycles(1, moved)
    data = [op.operands[0], *(value for each in form.body for value in each.results)]
    crossing = 2 * sum(map(_bytes, data)) // HOST_BYTES
    return max(products, port) + crossing + CALL + facts.instruction_fetch.start


def _outside(op: GraphOp, form: Offload) -> Iterator[SSAValue]:
    """What an op of the accelerator reads and writes in memory."""
    yield from (value for value in op.operands if value.owner not in form.body)
    yield from op.results


def _bytes(value: SSAValue) -> int:
    return bytes_of(type_of(value))


class PlaceOnAccelerator(RewritePattern):
    """Put what a plan gives to an accelerator into a group of its own, with the ops around it.

        %c = graph.conv %x, %w {result_element = i32} : tensor<1x32x8x8xi32>
    ->
        %b = graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"} : tensor<1x1x8x8x16xi8>
        %p = graph.group kind = complex_out_fusable {...} attributes {place = "vdla"} : ...
        %c = graph.layout_transform %p {src = "NCHW16c", dst = "NCHW"} : tensor<1x32x8x8xi32>
    """

    def __init__(self, plan: PartitionPlan):
        self.plan = plan

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOp, rewriter: PatternRewriter) -> None:
        placement = self.plan.placements.pop(op, None)
        if placement is None or not placement.is_there:
            return
        form = placement.form
        results = form.body[-1].results
        types = [value.type for value in results]
        group = GroupOp(op.fusion_kind, [*form.body, YieldOp(*results)], types)
        group.attributes[PLACE] = StringAttr(self.plan.place)
        group.location = op.location
        for each in (*form.before, *form.body, *form.after):
            each.location = op.location
        for old, new in zip(results, group.results, strict=True):
            for each in form.after:
                each.operands = [new if value is old else value for value in each.operands]
        rewriter.replace(op, [*form.before, group, *form.after])
