"""Insertion of dependency tokens in VDLA programs, based on the accesses of instructions."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import InstructionOp, ProgramOp, Unit
from tcopt.dialects.vdla.stream import stream_of
from tcopt.dialects.vdla.tasks.reading import machine_of, tasks_of
from tcopt.passes.accelerator.neighbour_tokens import plan_neighbour_tokens
from tcopt.passes.accelerator.token_plan import TokenPlan, plan_tokens
from tcopt.passes.vdla.relays import InsertRelay
from tcopt.support.errors import InputError, PassFailedError, UnsupportedError
from tcopt.support.ir.rewriting import rewrite

RULES = ("regions", "neighbours")


@dataclass(frozen=True)
class InsertTokensPass(ModulePass):
    """Insert the tokens by which the units of VDLA wait for each other.

        vdla.load inp 0, %x[0] : 1x4
        vdla.load wgt 0, %w[0] : 1x1
        vdla.gemm %k
        vdla.load inp 4, %x[4] : 1x4
        vdla.load inp 0, %x[8] : 1x4
        vdla.finish
    ->
        vdla.load inp 0, %x[0] : 1x4
        vdla.load wgt 0, %w[0] : 1x1 push(compute)
        vdla.gemm %k pop(load) push(load)
        vdla.load inp 4, %x[4] : 1x4
        vdla.load inp 0, %x[8] : 1x4 pop(compute) push(compute)
        vdla.finish pop(load)

    With tokens, every execution order that they permit computes the same result as program order.
    For each pair of units, an instruction waits for the last one with which it conflicts: one of
    them writes entries, of the accelerator's memories or of buffers, that the other reads or
    writes. A token is sent only if its sender is later than those of all earlier tokens. There are
    no tokens between load and store units; their conflicts are ordered by instructions of the
    compute unit in between, or, if there are none, by one that reloads micro-ops that are already
    loaded. Existing tokens are replaced.

    Queues of tokens never exceed their capacity: either an instruction waits for its neighbour, or
    one token replaces several.

    Options:
        rule: `regions`, or for comparison `neighbours`, which is VTA's rule: within a virtual
            thread, a token wherever the next statement is of another unit. It ignores accesses to
            buffers.
    Raises:
        UnsupportedError: a program names no accelerator.
        VerificationError: an instruction uses a resource that the accelerator does not have.
    """

    name = "insert-tokens"

    rule: str = RULES[0]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.rule not in RULES:
            raise InputError(
                f"insert-tokens has no rule '{self.rule}'", hint=f"one of {', '.join(RULES)}"
            )
        for program in op.ops:
            if isinstance(program, ProgramOp):
                self._insert(program)

    def _insert(self, program: ProgramOp) -> None:
        plan = plan_program(program, self.rule)
        if plan.relays:
            rewrite(program, [InsertRelay(program, plan)], once=True)
            plan = plan_program(program, self.rule)
            if plan.relays:
                raise PassFailedError("instructions between load and store are missing", op=program)
        plan.remark(self.name, program)
        rewrite(program, [SetTokens(program, plan)], once=True)


def plan_program(program: ProgramOp, rule: str = RULES[0]) -> TokenPlan:
    """Return the tokens of a program, by one of the rules of `insert-tokens`.

    Raises:
        UnsupportedError: it names no accelerator.
        VerificationError: an instruction uses a resource that the accelerator does not have.
    """
    target = target_of(program)
    stream = stream_of(program)
    tasks, faults = tasks_of(stream, target)
    if faults:
        raise faults[0]
    machine = machine_of(target, stream)
    if rule == RULES[0]:
        return plan_tokens(stream.name, machine, tasks)
    return plan_neighbour_tokens(stream.name, machine, tasks)


def target_of(program: ProgramOp) -> VdlaTargetAttr:
    """Return the accelerator that a program or its module names.

    Raises:
        UnsupportedError: none is named.
    """
    if (target := program.target) is None:
        raise UnsupportedError(
            "the program names no accelerator",
            op=program,
            hint="name one: attributes {tcopt.target = #target.vdla<...>}, or the pass set-target",
        )
    return target


class SetTokens(RewritePattern):
    """Set the planned tokens of an instruction, and remove others.

        vdla.gemm %k
    ->
        vdla.gemm %k pop(load) push(store)
    """

    def __init__(self, program: ProgramOp, plan: TokenPlan):
        pops, pushes = plan.pops(), plan.pushes()
        self.tokens = {
            op: (_units(pops.get(number, [])), _units(pushes.get(number, [])))
            for number, op in enumerate(program.instructions)
        }

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: InstructionOp, rewriter: PatternRewriter) -> None:
        tokens = self.tokens.get(op, ((), ()))
        if (op.pops, op.pushes) != tokens:
            op.set_tokens(*tokens)
            rewriter.notify_op_modified(op)


def _units(names: list[str]) -> tuple[Unit, ...]:
    return tuple(unit for unit in Unit if unit in names)
