"""Tokens of a program of the accelerator, from what its instructions touch."""

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
from tcopt.support.rewriting import rewrite

RULES = ("regions", "neighbours")


@dataclass(frozen=True)
class InsertTokensPass(ModulePass):
    """Lets units of an accelerator wait for each other where one touches what another does.

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

    What the stream computes in its own order it then computes in every order that tokens allow.
    For each pair of units an instruction waits for the last one that it conflicts with: that
    writes entries which it reads or writes, or reads entries which it writes, of the
    accelerator's memories or of buffers. A token is sent only where that is later than all that
    were waited for before. Load and store have no tokens between them; what they share is ordered
    by instructions of the compute unit between them, and where there are none, by one that loads
    micro-ops which are there already. Tokens that a program has are replaced.

    Queues of tokens are not filled beyond what they hold: an instruction waits for its neighbour,
    or one token stands for several.

    Options:
        rule: `regions`, or `neighbours` for VTA's rule, to compare with: within a virtual thread,
            wherever the unit of the next statement is another one. It does not look at buffers.
    Raises:
        UnsupportedError: a program names no accelerator.
        VerificationError: an instruction names what the accelerator does not have.
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
    """The tokens of a program, by one of the rules of `insert-tokens`.

    Raises:
        UnsupportedError: it names no accelerator.
        VerificationError: an instruction names what the accelerator does not have.
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
    """The accelerator that a program, or its module, names.

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
    """Give an instruction the tokens that a plan has for it, and no others.

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
