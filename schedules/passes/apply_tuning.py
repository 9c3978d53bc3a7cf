"""The pass `apply-tuning`.

A walk by hand: each function and operator is looked up in a lock file, and the schedules and
choices found there are added next to them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i64,
)
from xdsl.passes import ModulePass

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.tuning import PREFIX
from tcopt.dialects.te import FuncOp
from tcopt.schedules.rules.recorded import CHOICE
from tcopt.schedules.tuning.lock_file import (
    OPTIONAL,
    RULE,
    LockEntry,
    LockFile,
    choice_of,
    read_lock,
)
from tcopt.schedules.tuning.workloads import key_of, target_text, workload_key
from tcopt.support.errors import InputError
from tcopt.support.remarks import Remark, notice, remark, replay
from tcopt.support.syntax.canonical_text import canonical_text

_NAMED = 3


@dataclass(frozen=True)
class ApplyTuningPass(ModulePass):
    """Attaches the schedules and choices of a lock file to kernels and operators.

        te.func @conv(...) {...}
    ->
        te.func @conv(...) {...}
        sched.sequence @conv_schedule for @conv attributes {rule = "cpu-contraction"} {
          %conv = sched.get_block "conv"
          ...
        }

        %y = graph.conv %x, %w : ...
    ->
        %y = graph.conv %x, %w {tune.winograd = 4 : i64} : ...

    It runs at the graph level for operators, and at the te level for kernels. An entry applies to
    every kernel or operator with the same computation on the same target, whatever its name. The
    pass `schedule` skips functions that have a sequence; if the sequence has only a `choice`, the
    rule writes its steps.

    Options:
        file: the lock file.
        digest: expected hash of the lock file, from when the model was loaded; not checked by
            default.
        locked: require an entry for every kernel, and that every schedule applies. Otherwise the
            default replaces schedules that do not apply, and malformed entries are skipped.
    """

    name = "apply-tuning"

    file: str
    digest: str = ""
    locked: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lock = read_lock(self.file, self.digest)
        if lock.refused and self.locked:
            raise lock.refused[0]
        functions = [each for each in op.ops if isinstance(each, FuncOp)]
        if not functions:
            _tell_operators(op, lock, key_of(target_text(op)))
            return
        for error in lock.refused:
            text = f"skipped an entry of the lock file: {error.message}; tune again"
            replay([Remark(self.name, "lock file", error.where or self.file, text, True, True)])
        missing: list[str] = []
        targets: set[str] = set()
        for function in functions:
            target = key_of(target_text(op, function))
            targets.add(target)
            entry = lock.kernels.get((workload_key(function), target))
            if entry is None:
                missing.append(function.sym_name.data)
            else:
                self._tell_kernel(op, function, entry)
        self._judge(missing, lock, targets)

    def _tell_kernel(self, module: ModuleOp, function: FuncOp, entry: LockEntry) -> None:
        if not entry.has_steps and entry.choice is None:
            return  # The default schedule was the fastest.
        sequence = entry.sequence.clone()
        sequence.location = entry.sequence.location
        for copy, step in zip(sequence.walk(), entry.sequence.walk(), strict=True):
            copy.location = step.location
        name = function.sym_name.data
        sequence.sym_name = StringAttr(f"{name}_schedule")
        sequence.function = SymbolRefAttr(name)
        kept = {RULE, CHOICE}
        sequence.attributes = {k: v for k, v in sequence.attributes.items() if k in kept}
        if not self.locked:
            sequence.attributes[OPTIONAL] = UnitAttr()
        module.body.block.insert_op_after(sequence, function)
        gain = f", {entry.gain:.2f}x as fast as the default" if entry.gain != 1 else ""
        remark(self.name, function, f"a schedule by {entry.rule or 'hand'}{gain}")

    def _judge(self, missing: list[str], lock: LockFile, targets: set[str]) -> None:
        if not missing:
            return
        others = {each for _, each in lock.kernels} - targets
        if self.locked:
            named = ", ".join(f"@{name}" for name in missing[:_NAMED])
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            why = f"; it has entries for {len(others)} other targets" if others else ""
            raise InputError(
                f"the lock file has no entry for {named}{more}{why}",
                where=self.file,
                hint="tune the model for this target, or compile without --locked",
            )
        if others and not any(target in targets for _, target in lock.kernels):
            notice(self.name, self.file, "all entries are for other targets")


def _tell_operators(module: ModuleOp, lock: LockFile, target: str) -> None:
    wanted = {key: op for (key, each), op in lock.operators.items() if each == target}
    if not wanted:
        return
    for op in module.walk():
        if isinstance(op, GraphOp) and (found := wanted.get(operator_key(op))) is not None:
            for name, value in (choice_of(found) or {}).items():
                op.attributes[PREFIX + name] = (
                    IntegerAttr(value, i64) if isinstance(value, int) else StringAttr(value)
                )


def operator_key(op: GraphOp) -> str:
    """Return a hash of an operator's kind, attributes and types."""
    return key_of(canonical_text(op))
