"""Partitioning of a model between the host and an accelerator.

A walk by hand: the plan of a function is applied as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.control.group import PLACE, GroupOp, YieldOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import bytes_of, element_type, type_of
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.size import symbols_in
from tcopt.dialects.target import accelerator_of
from tcopt.dialects.target.accelerator import AcceleratorFacts
from tcopt.passes.graph.folding.constants import Constants
from tcopt.passes.graph.placement.alu_chains import (
    AluChain,
    Claims,
    are_bytes,
    drop,
)
from tcopt.passes.graph.placement.blocks import layout_of, lies_as, plain_source
from tcopt.passes.graph.placement.offload import Offload, on_alu_in_blocks, on_matrix_unit
from tcopt.passes.graph.placement.read_outs import follow_read_out
from tcopt.passes.graph.precision.integer_ranges import IntegerRanges
from tcopt.support.accuracy import ACCURACIES, DEFAULT, FAST
from tcopt.support.arithmetic.minimum_cut import UNLIMITED, FlowNetwork
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import erase, function_bodies, replace, take_choices
from tcopt.support.locations import describe_location, nearest_location
from tcopt.support.remarks import remark, warn_of_placement

HOST_PRODUCTS = 6
"""Multiply-adds of the host per cycle of the accelerator: in figure 21 of the TVM paper, the ARM
core of a Pynq board takes 2.87 s for the 1.7 G multiply-adds of ResNet-18's convolutions, and the
accelerator is clocked at 100 MHz."""

HOST_BYTES = 8
"""Bytes that the host moves between layouts per cycle of the accelerator."""

CALL = 1000
"""Overhead of a call on the host, in cycles of the accelerator."""


_SHOWN_LAYERS = 3
"""Maximum number of layers named in a warning."""


@dataclass(frozen=True)
class PartitionPass(ModulePass):
    """Assign operators to the accelerator if it computes them in less time.

        %c = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x32x8x8xi32>
    ->
        %b = graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"} : tensor<1x1x8x8x16xi8>
        %v = ... %w as blocks ...
        %p = graph.group kind = complex_out_fusable {
          %0 = graph.blocked_conv %b, %v {pads = [1, 1, 1, 1], result_element = i32} : ...
          graph.yield %0 : tensor<1x2x8x8x16xi32>
        } attributes {place = "vdla"} : tensor<1x2x8x8x16xi32>
        %c = graph.layout_transform %p {src = "NCHW16c", dst = "NCHW"} : tensor<1x32x8x8xi32>

    Rules of operators decide whether a matrix unit can compute them, and in which form
    (`on_matrix_unit`). If the results are 32-bit sums, the host continues with them. If the
    accelerator has an ALU and stores bytes, the following operators are computed there up to the
    last one whose result fits bytes, and later ones read it in blocks; their rules
    decide how (`on_alu`). Such an ALU also computes operators without products, such as max pooling
    (`on_alu_in_blocks`). If the store unit can apply operators to sums, according to the
    accelerator's facts, these are fused into the store (`AcceleratorFacts.reads_out`). Results are
    the same integers. The attribute `place` of a group names the accelerator, which becomes the
    target of the group's function.

    Operators are assigned by a minimum cut so that the whole model takes the fewest cycles. The
    costs are, on the accelerator, the products (or the transfers through the port, if they take
    longer) and the ALU; on the host, the products; and the layout transforms of values that are
    used on the other side.

    Each operator that stays on the host is reported by a remark with the reason. If the accelerator
    cannot compute any, a `PlacementWarning` names the first ones.

    The pass does nothing if the module has no accelerator (`tcopt.accelerator`, see
    `set-accelerator`).

    Options:
        host_products: multiply-adds of the host per cycle of the accelerator.
        all_of_them: whether to assign all possible operators to the accelerator.
        accuracy: `fast` permits integers that differ by one from those of the host.
    """

    name = "partition"
    moves_values: ClassVar[bool] = True

    host_products: int = HOST_PRODUCTS
    all_of_them: bool = False
    accuracy: str = DEFAULT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.accuracy not in ACCURACIES:
            known = ", ".join(ACCURACIES)
            raise PassFailedError(f"partition: accuracy = '{self.accuracy}' is none of {known}")
        facts = accelerator_of(op)
        if not isinstance(facts, AcceleratorFacts) or facts.matrix_unit is None:
            return
        constants = Constants(op)
        for body in function_bodies(op):
            plan = plan_partition(
                body,
                facts,
                constants,
                self.host_products,
                every=self.all_of_them,
                slack=int(self.accuracy == FAST),
            )
            plan.warn_of_nothing()
            _Placing(plan).run(body)
            for each in plan.placements.keys() - plan.chosen:
                plan.placements[each].chain.drop()


def _subject(op: Operation) -> str:
    where = (describe_location(nearest_location(op)) or "").strip('"')
    return f"{op.name} ({where})" if where else op.name


@dataclass(frozen=True)
class Placement:
    """A chain of operators that an accelerator can compute, with its cost.

    Attributes:
        there: cycles on the accelerator.
        here: cycles on the host.
    """

    chain: AluChain
    there: int
    here: int


@dataclass
class PartitionPlan:
    """Assignment of operators to an accelerator.

    Attributes:
        placements: possible chains by their first operator, in program order.
        chosen: operators that are assigned to the accelerator.
        refused: compute-bound operators that it cannot compute, with the reasons.
    """

    place: str
    placements: dict[Operation, Placement] = field(default_factory=dict[Operation, Placement])
    chosen: set[Operation] = field(default_factory=set[Operation])
    refused: dict[Operation, str] = field(default_factory=dict[Operation, str])

    def warn_of_nothing(self) -> None:
        """Warn if the accelerator computes nothing although the graph has operators for it."""
        if self.chosen or not self.refused:
            return
        lines = [f"{_subject(op)}: {why}" for op, why in reversed(self.refused.items())]
        more = len(lines) - _SHOWN_LAYERS
        lines[_SHOWN_LAYERS:] = [f"and {more} more, listed by explain"] if more > 0 else []
        warn_of_placement(
            f"{self.place} computes nothing, the host computes all: {'; '.join(lines)}"
        )


def plan_partition(
    body: Block,
    facts: AcceleratorFacts,
    constants: Constants,
    host_products: int,
    *,
    every: bool = False,
    slack: int = 0,
) -> PartitionPlan:
    """Choose the operators of a function's body that the accelerator computes.

    Args:
        slack: permitted difference of integers from those of the host.
    """
    plan = PartitionPlan(facts.kind)
    ranges = IntegerRanges(constants)
    claims = Claims()
    # From the end, so that an op that adds two results belongs to the chain of the later one.
    for op in reversed(list(body.ops)):
        if not isinstance(op, GraphOp) or op in claims.ops:
            continue
        chain = _chain(op, facts, constants, ranges, claims, slack)
        if chain is None:
            continue
        if isinstance(chain, str):
            remark(PartitionPass.name, op, f"on the host: {chain}", missed=True)
            if _is_for_accelerators(op):
                plan.refused[op] = chain
            continue
        claims.take(chain)
        there = _cycles(chain, facts)
        plan.placements[op] = Placement(chain, there, _host_cycles(chain, host_products))
    plan.placements = dict(reversed(plan.placements.items()))
    plan.chosen = {*plan.placements} if every else _cheapest(body, plan)
    for op, each in plan.placements.items():
        is_there = op in plan.chosen
        where = facts.kind if is_there else "the host"
        followed = len(each.chain.followed) - 1
        where += f", with {followed} operators that follow" if followed else ""
        text = f"on {where}: {each.there} cycles on {facts.kind}, {each.here} on the host"
        notes = each.chain.notes if is_there else []
        remark(PartitionPass.name, op, "; ".join([text, *notes]), missed=not is_there)
    return plan


def _is_for_accelerators(op: GraphOp) -> bool:
    """Return whether a user would expect an accelerator to compute an operator."""
    return bool(op.COUNTS_ON) or isinstance(op, ContractionOp)


def _chain(
    op: GraphOp,
    facts: AcceleratorFacts,
    constants: Constants,
    ranges: IntegerRanges,
    claims: Claims,
    slack: int,
) -> AluChain | str | None:
    """Return an operator's chain, or why there is none; None if no user would expect one."""
    unit = facts.matrix_unit
    assert unit is not None, "asked before"
    if symbols_in((*op.operand_types, *op.result_types)):
        return f"{facts.kind} needs fixed extents" if _is_for_accelerators(op) else None
    form = on_matrix_unit(op, unit.inner, unit.lanes)
    if isinstance(form, str):
        alone = on_alu_in_blocks(op, unit.lanes)
        if alone is None:
            return form if _is_for_accelerators(op) else None
        return _on_alu(op, alone, facts, constants, ranges, claims, slack)
    if unit.rows > 1:
        drop([*form.before, *form.body, *form.after])
        return f"no layout feeds a unit that multiplies {unit.rows} rows at once"
    reason = f"{facts.kind} cannot store 32-bit sums"
    if facts.alu is not None and "i8" in unit.results:
        chain = AluChain(op, form, unit, facts.alu, constants, ranges, claims=claims, slack=slack)
        reason = chain.follow()
        if reason is None:
            return chain
        chain.drop()
        form = on_matrix_unit(op, unit.inner, unit.lanes)
        assert not isinstance(form, str)
    found = AluChain(op, form, unit, None, constants, ranges, claims=claims)
    if follow_read_out(found, facts) or "i32" in unit.results:
        return found
    found.drop()
    return reason


def _on_alu(
    op: GraphOp,
    form: Offload | str,
    facts: AcceleratorFacts,
    constants: Constants,
    ranges: IntegerRanges,
    claims: Claims,
    slack: int,
) -> AluChain | str:
    """Return the chain of an operator without contraction on the ALU, or why there is none."""
    unit, alu = facts.matrix_unit, facts.alu
    assert unit is not None, "asked before"
    if isinstance(form, str):
        return form
    chain = AluChain(op, form, unit, alu, constants, ranges, claims=claims, slack=slack)
    reason: str | None = None
    if alu is None or not alu.loads_bytes or "i8" not in unit.results:
        reason = f"{facts.kind} has no alu that loads and stores bytes"
    elif unit.rows > 1:
        reason = f"no layout feeds an alu that works on {unit.rows} rows at once"
    elif form.registers > alu.registers:
        reason = f"a window needs {form.registers} registers, the alu has {alu.registers}"
    elif not all(are_bytes(ranges.of(value)) for value in chain.reads):
        reason = "its data are not signed bytes"
    reason = reason or chain.follow()
    if reason is not None:
        chain.drop()
        return reason
    return chain


def _cycles(chain: AluChain, facts: AcceleratorFacts) -> int:
    """Return the cycles for which the accelerator is busy."""
    products = chain.form.products * chain.unit.cycles // chain.unit.products
    moved = sum(_bytes(value) for each in chain.body for value in each.operands
                if value.owner not in chain.body)  # fmt: skip
    moved += _bytes(chain.body[-1].results[0])
    port = facts.transfer_cycles(1, moved)
    return max(products + chain.cycles(), port) + CALL + facts.instruction_fetch.start


def _host_cycles(chain: AluChain, host_products: int) -> int:
    """Return the cycles for which the host would be busy."""
    after = sum(_bytes(value) for each in chain.followed[1:] for value in each.results)
    return chain.op.work() // (2 * host_products) + after // HOST_BYTES


def _cheapest(body: Block, plan: PartitionPlan) -> set[Operation]:
    """Return the operators to assign to the accelerator so that the total of cycles is minimal."""
    network = FlowNetwork()
    makers: dict[SSAValue, Operation] = {
        plain_source(each.chain.end.results[0]): op for op, each in plan.placements.items()
    }
    wanted: dict[SSAValue, set[int]] = {}
    # Values that the accelerator produces and reads, but in different layouts.
    moved: dict[SSAValue, set[int]] = {}
    for op, each in plan.placements.items():
        network.connect(network.source, network.node(op), each.here)
        network.connect(network.node(op), network.sink, each.there)
        for value in each.chain.reads:
            source = plain_source(value)
            maker = makers.get(source)
            lies = maker is None or _is_read_as_stored(plan, source, maker, op)
            (wanted if lies else moved).setdefault(source, set()).add(network.node(op))
    inside: set[Operation] = {op for each in plan.placements.values() for op in each.chain.followed}
    for value in (*makers, *(value for value in wanted if value not in makers)):
        maker = network.node(makers[value]) if value in makers else network.sink
        users = set(wanted.get(value, ()))
        if value in makers:
            end = plan.placements[makers[value]].chain.end.results[0]
            if value in moved or any(_is_read_elsewhere(each, inside) for each in (value, end)):
                users.add(network.sink)
        _connect(network, value, maker, users - {maker})
    for value, readers in moved.items():
        laid_out = network.node((value, "moved"))
        network.connect(laid_out, network.sink, 2 * _bytes(value) // HOST_BYTES)
        for reader in readers:
            network.connect(reader, laid_out, UNLIMITED)
    host = network.sink_side()
    return {op for op in plan.placements if network.node(op) not in host}


def _is_read_as_stored(
    plan: PartitionPlan, source: SSAValue, maker: Operation, reader: Operation
) -> bool:
    """Whether an operator reads another one's result in the blocks in which it is stored."""
    stored = layout_of(plan.placements[maker].chain.form.after)
    layouts = [
        op
        for op in plan.placements[reader].chain.before
        if isinstance(op, LayoutTransformOp) and plain_source(op.x) is source
    ]
    return stored is not None and all(lies_as(stored, each) for each in layouts) and bool(layouts)


def _is_read_elsewhere(value: SSAValue, inside: set[Operation]) -> bool:
    """Whether the host reads a value, possibly after conversions."""
    for use in value.uses:
        op = use.operation
        if op.parent is None or op in inside:
            continue
        if not isinstance(op, CastOp | ReshapeOp) or _is_read_elsewhere(op.results[0], inside):
            return True
    return False


def _connect(network: FlowNetwork, value: SSAValue, maker: int, users: set[int]) -> None:
    """Add the cost of moving a value to the other side, once for all of its users there."""
    cost = 2 * _bytes(value) // HOST_BYTES
    to_host, to_accelerator = network.node((value, "host")), network.node((value, "there"))
    network.connect(maker, to_host, cost)
    network.connect(to_accelerator, maker, cost)
    for user in users:
        network.connect(to_host, user, UNLIMITED)
        network.connect(user, to_accelerator, UNLIMITED)


def _bytes(value: SSAValue) -> int:
    return bytes_of(type_of(value))


class _Placing:
    """Moves assigned chains into groups; blocks that another group stores are read as they are.

    Attributes:
        blocks: conversion of the blocks that a group stores, by its result.
    """

    def __init__(self, plan: PartitionPlan):
        self.plan = plan
        self.blocks: dict[SSAValue, LayoutTransformOp] = {}

    def run(self, body: Block) -> None:
        """Place all assigned chains, in the order of their last operators."""
        chains: dict[Operation, AluChain] = {
            each.chain.end: each.chain
            for op, each in self.plan.placements.items()
            if op in self.plan.chosen
        }
        for op in tuple(body.ops):
            if op in chains:
                self.place(op, chains[op])

    def place(self, op: Operation, chain: AluChain) -> None:
        """Replace a chain that ends in an operator by a group, with conversions around it."""
        before = [made for each in chain.before for made in self._as_stored(each)]
        result = chain.body[-1].results[0]
        group = GroupOp(chain.op.fusion_kind, [*chain.body, YieldOp(result)], [result.type])
        group.attributes[PLACE] = StringAttr(self.plan.place)
        (stored,) = group.results
        after = list(chain.after(stored))
        made = [*before, group, *after]
        for each in (*made, *chain.body):
            each.location = chain.op.location
        take_choices(made[-1], op)
        replace(op, made)
        back = layout_of(after)
        if back is not None:
            self.blocks[back.results[0]] = back
        erase(*(each for each in chain.followed if each is not op))

    def _as_stored(self, op: GraphOp) -> Sequence[GraphOp]:
        """Return an op, or instead of a layout transform a view of a result in that layout."""
        if not isinstance(op, LayoutTransformOp):
            return (op,)
        stored = self.blocks.get(plain_source(op.x))
        if stored is None or not lies_as(stored, op):
            return (op,)
        if element_type(stored.x) != element_type(op.x):
            return (op,)
        view = [] if stored.x.type == op.type else [ReshapeOp(stored.x, op.shape)]
        op.results[0].replace_all_uses_with(view[0].results[0] if view else stored.x)
        op.drop_all_references()
        return view
