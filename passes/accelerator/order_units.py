"""Synchronisation of the units of an accelerator, based on the accesses of its instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.accelerator import BarrierOp, ProgramOp, RelayOp, StepOp
from tcopt.dialects.accelerator.dependences import dependences_of
from tcopt.dialects.accelerator.reading import read_program
from tcopt.dialects.accelerator.tasks import Machine, Task
from tcopt.dialects.target import AcceleratorFacts
from tcopt.dialects.target.accelerator import Barriers, Tokens
from tcopt.passes.accelerator.neighbour_tokens import plan_neighbour_tokens
from tcopt.passes.accelerator.token_plan import TokenPlan, plan_tokens
from tcopt.support.errors import InputError, PassFailedError, UnsupportedError
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.remarks import remark

RULES = ("regions", "neighbours")


@dataclass(frozen=True)
class OrderUnitsPass(ModulePass):
    """Synchronise the units of an accelerator so that all dependences hold.

        accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %x[0 by 8]
        accelerator.run "tile_store_1x8" [4] out %y[0 by 8] in tile_data[0 by 1]
        accelerator.finish
    ->
        accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %x[0 by 8]
        accelerator.barrier
        accelerator.run "tile_store_1x8" [4] out %y[0 by 8] in tile_data[0 by 1]
        accelerator.barrier
        accelerator.finish

    The accelerator's facts define the mechanism (`AcceleratorFacts.order`): tokens; barriers, as
    few as possible; or nothing, if the machine detects hazards itself. Existing tokens and barriers
    of a program are replaced.

    With tokens, every execution order that they permit computes the same result as program order.

        vdla.load inp 0, %x[0] : 1x4
        vdla.load wgt 0, %w[0] : 1x1
        vdla.gemm %k
        vdla.load inp 4, %x[4] : 1x4
        vdla.load inp 0, %x[8] : 1x4
        accelerator.finish
    ->
        vdla.load inp 0, %x[0] : 1x4
        vdla.load wgt 0, %w[0] : 1x1 push(compute)
        vdla.gemm %k pop(load) push(load)
        vdla.load inp 4, %x[4] : 1x4
        vdla.load inp 0, %x[8] : 1x4 pop(compute) push(compute)
        accelerator.finish pop(load)

    For each pair of units, an instruction waits for the last one with which it conflicts: one of
    them writes entries, of the accelerator's memories or of buffers, that the other reads or
    writes. A token is sent only if its sender is later than the senders of all earlier tokens. If
    no queue connects two units, their conflicts are ordered by instructions of a unit between
    them or, without such instructions, by an `accelerator.relay`. Queues of tokens never exceed
    their capacity: either an instruction waits for its neighbour, or one token replaces several.

    Options:
        rule: `regions`, or for comparison `neighbours`, which is VTA's rule: within a virtual
            thread, a token wherever the next statement is of another unit. It ignores accesses to
            buffers.
    Raises:
        UnsupportedError: a program names no accelerator, or two units are not connected by queues.
        VerificationError: an instruction uses a resource that the accelerator does not have.
    """

    name = "order-units"

    rule: str = RULES[0]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.rule not in RULES:
            raise InputError(
                f"order-units has no rule '{self.rule}'", hint=f"one of {', '.join(RULES)}"
            )
        for program in op.ops:
            if isinstance(program, ProgramOp):
                self._order(program, described(program))

    def _order(self, program: ProgramOp, facts: AcceleratorFacts) -> None:
        rewrite(program, [RemoveOrder()], once=True)
        if isinstance(facts.order, Barriers):
            read = read_program(program, facts)
            places = barrier_places(read.machine, read.tasks)
            remark(self.name, program, f"{len(places)} barriers")
            steps = program.steps
            rewrite(program, [InsertBarrier({steps[n] for n in places})], once=True)
        elif isinstance(facts.order, Tokens):
            self._insert_tokens(program, facts)

    def _insert_tokens(self, program: ProgramOp, facts: AcceleratorFacts) -> None:
        plan = plan_program(program, facts, self.rule)
        if plan.relays:
            steps = program.steps
            relays = {steps[number]: unit for number, unit in plan.relays.items()}
            rewrite(program, [InsertRelay(relays)], once=True)
            plan = plan_program(program, facts, self.rule)
            if plan.relays:
                raise PassFailedError("relays are missing", op=program)
        plan.remark(self.name, program)
        rewrite(program, [SetTokens(program, plan)], once=True)


def described(program: ProgramOp) -> AcceleratorFacts:
    """Return the accelerator that a program names.

    Raises:
        UnsupportedError: it names none.
    """
    if (facts := program.facts) is None:
        raise UnsupportedError(
            "the program names no accelerator",
            op=program,
            hint="name one by the attribute tcopt.target, or the pass set-target",
        )
    return facts


def barrier_places(machine: Machine, tasks: Sequence[Task]) -> list[int]:
    """Return the tasks before which to insert the fewest possible barriers.

    Each barrier is placed as late as possible: before the first task that depends on a task of
    another unit since the previous barrier.
    """
    needs: dict[int, int] = {}
    for each in dependences_of(machine, tasks):
        needs[each.second] = max(needs.get(each.second, -1), each.first)
    places: list[int] = []
    for task in tasks:
        if needs.get(task.number, -1) >= (places[-1] if places else 0):
            places.append(task.number)
    return places


def plan_program(program: ProgramOp, facts: AcceleratorFacts, rule: str = RULES[0]) -> TokenPlan:
    """Return the tokens of a program, by one of the rules of `order-units`.

    Raises:
        VerificationError: an instruction uses a resource that the accelerator does not have.
    """
    read = read_program(program, facts)
    plan = plan_tokens if rule == RULES[0] else plan_neighbour_tokens
    return plan(read.name, read.machine, read.tasks)


class RemoveOrder(RewritePattern):
    """Remove tokens, barriers and relays.

        accelerator.barrier
        accelerator.finish pop(load)
    ->
        accelerator.finish
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: StepOp, rewriter: PatternRewriter) -> None:
        if isinstance(op, BarrierOp | RelayOp):
            rewriter.erase(op)
        elif op.waits_for or op.sends_to:
            op.set_tokens()
            rewriter.notify_op_modified(op)


class InsertBarrier(RewritePattern):
    """Insert a barrier before steps.

        accelerator.finish
    ->
        accelerator.barrier
        accelerator.finish
    """

    def __init__(self, steps: set[StepOp]):
        self.steps = steps

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: StepOp, rewriter: PatternRewriter) -> None:
        if op in self.steps:
            self.steps.remove(op)
            barrier = BarrierOp()
            barrier.location = op.location
            rewriter.insert(barrier)


class InsertRelay(RewritePattern):
    """Insert a relay of a unit before steps.

        accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %y[0 by 8]
    ->
        accelerator.relay matrix
        accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %y[0 by 8]
    """

    def __init__(self, units: dict[StepOp, str]):
        self.units = units

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: StepOp, rewriter: PatternRewriter) -> None:
        unit = self.units.pop(op, None)
        if unit is not None:
            relay = RelayOp(unit)
            relay.location = op.location
            rewriter.insert(relay)


class SetTokens(RewritePattern):
    """Set the planned tokens of a step.

        accelerator.finish
    ->
        accelerator.finish pop(load)
    """

    def __init__(self, program: ProgramOp, plan: TokenPlan):
        pops, pushes = plan.pops(), plan.pushes()
        self.tokens = {
            step: (pops.get(number, []), pushes.get(number, []))
            for number, step in enumerate(program.steps)
        }

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: StepOp, rewriter: PatternRewriter) -> None:
        pops, pushes = self.tokens.pop(op, ([], []))
        if pops or pushes:
            op.set_tokens(pops, pushes)
            rewriter.notify_op_modified(op)
