"""Lock files written: what tuning found for a model, as text that people read and edit.

`tcopt.schedules.tuning.lock_file` says how such a file looks, and reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Operation

from tcopt.compiler.passes import shared_context
from tcopt.dialects.sched import OperatorOp, SequenceOp
from tcopt.schedules.rules.recorded import CHOICE, choice_attribute, recorded_choice
from tcopt.schedules.tuning.lock_file import (
    GAIN,
    RULE,
    TARGET,
    TARGETS,
    VERSION,
    VERSION_ATTRIBUTE,
    WORKLOAD,
    LockFile,
    read_lock,
)
from tcopt.support.files import write_output
from tcopt.support.parsing import TextParser
from tcopt.tuner.measure.sequences import parse_sequence
from tcopt.tuner.tasks import Task

_HEAD = """// Schedules that were found for {model}.
// They are obeyed while the file lies beside the model, and may be edited: what counts are the
// steps. Take the steps out, and the rule writes those of the choice; take an entry out, and the
// default schedule is back.
"""
_DIGITS = 8
_INDENT = "  "


@dataclass(frozen=True)
class TunedKernel:
    """What was found for one kernel.

    Attributes:
        sequence: the schedule as text; empty where the default is as good.
        default: the default's schedule, to tell what is different.
        ns, default_ns: times of a call; `low`, `high`: the interval of how many times as fast.
        code_version: of the compiler that wrote the steps.
    """

    task: Task
    sequence: str = ""
    default: str = ""
    ns: float = 0.0
    default_ns: float = 0.0
    low: float = 1.0
    high: float = 1.0
    code_version: str = ""

    @property
    def gain(self) -> float:
        """How many times as fast as the default."""
        return self.default_ns / self.ns if self.ns and self.default_ns else 1.0


@dataclass(frozen=True)
class TunedOperator:
    """What was chosen for operators of the graph.

    Attributes:
        key: of the operator, see `apply_tuning.operator_key`.
        nodes: the ONNX nodes, for people.
    """

    key: str
    target: str
    choice: Mapping[str, int | str]
    nodes: Sequence[str] = ()
    gain: float = 1.0


@dataclass
class LockWriter:
    """The lock file of a model as it is to be.

    Args:
        model: the name of the model, for people.
        targets: text of each target by its key.
    """

    model: str = ""
    targets: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    _kernels: dict[tuple[str, str], tuple[Operation, str]] = field(
        default_factory=dict[tuple[str, str], tuple[Operation, str]]
    )
    _operators: dict[tuple[str, str], tuple[Operation, str]] = field(
        default_factory=dict[tuple[str, str], tuple[Operation, str]]
    )

    def keep(self, lock: LockFile, without: Collection[str] = ()) -> None:
        """Keep what a file has, but for targets that were tuned anew."""
        for key, entry in lock.kernels.items():
            if key[1] not in without:
                self._kernels[key] = entry.sequence.clone(), ""
        for key, op in lock.operators.items():
            if key[1] not in without:
                self._operators[key] = op.clone(), ""
        self.targets.update({k: v for k, v in lock.targets.items() if k not in without})

    def add_kernel(self, found: TunedKernel) -> None:
        """Add what was found for a kernel, in place of what was there."""
        task = found.task
        self.targets[task.target_key] = TextParser(shared_context(), task.target).parse_attribute()
        name = f"{task.name}_{task.key[:_DIGITS]}"
        op = parse_sequence(found.sequence) if found.sequence else SequenceOp(name, task.name)
        op.sym_name = StringAttr(name)
        op.function = SequenceOp(name, task.name).function
        attributes: dict[str, Attribute] = {
            WORKLOAD: StringAttr(task.key),
            TARGET: StringAttr(task.target_key),
        }
        attributes |= {k: v for k, v in op.attributes.items() if k in (RULE, CHOICE)}
        if found.gain != 1.0:
            attributes[GAIN] = FloatAttr(round(found.gain, 3), f64)
        if found.code_version:
            attributes["tuned.compiler"] = StringAttr(found.code_version)
        op.attributes = attributes
        self._kernels[task.key, task.target_key] = op, _comment(found)

    def add_operator(self, found: TunedOperator) -> None:
        """Add what was chosen for operators of the graph."""
        attributes: dict[str, Attribute] = {
            TARGET: StringAttr(found.target),
            "nodes": ArrayAttr([StringAttr(node) for node in found.nodes]),
            CHOICE: choice_attribute(found.choice),
        }
        if found.gain != 1.0:
            attributes[GAIN] = FloatAttr(round(found.gain, 3), f64)
        op = OperatorOp(found.key, attributes)
        self._operators[found.key, found.target] = op, ""

    def text(self) -> str:
        """The whole file."""
        empty = ModuleOp([], self._attributes())
        head = str(empty).replace("{\n}", "{", 1).rstrip("}").rstrip()
        parts = [_HEAD.format(model=self.model or "a model"), head.rstrip("{").rstrip(), " {\n"]
        for op, comment in (*self._operators.values(), *self._kernels.values()):
            lines = str(op).splitlines()
            parts += [f"{_INDENT}// {line}\n" for line in comment.splitlines()]
            parts += [f"{_INDENT}{line}\n" for line in lines]
        return "".join([*parts, "}\n"])

    def write(self, path: str | Path) -> None:
        """Write the file; it is there whole, or as it was.

        Raises:
            InputError: it cannot be written.
        """
        write_output(path, self.text())

    def _attributes(self) -> dict[str, Attribute]:
        return {
            VERSION_ATTRIBUTE: IntegerAttr(VERSION, i64),
            TARGETS: DictionaryAttr(dict(sorted(self.targets.items()))),
        }


def writer_for(path: str | Path, model: str, tuned: Collection[str]) -> LockWriter:
    """A writer that keeps what a file has for other targets, if there is such a file.

    Args:
        tuned: keys of the targets that were tuned anew.
    """
    writer = LockWriter(model)
    if Path(path).exists():
        writer.keep(read_lock(path), tuned)
    return writer


def _comment(found: TunedKernel) -> str:
    nodes = ", ".join(found.task.nodes[:3]) + (", ..." if len(found.task.nodes) > 3 else "")
    where = f" ({nodes})" if nodes else ""
    if not found.sequence:
        return f"{found.task.name}{where}: the default"
    times = ""
    if found.ns and found.default_ns:
        times = (
            f": {found.gain:.2f}x ({found.low:.2f}-{found.high:.2f}), "
            f"{found.ns / 1e3:.1f} us instead of {found.default_ns / 1e3:.1f}"
        )
    changed = differences(found.sequence, found.default)
    return f"{found.task.name}{where}{times}" + (f"\n{changed}" if changed else "")


def differences(sequence: str, default: str) -> str:
    """What one schedule chose and another did not, for people; empty if that is nothing."""
    if not sequence or not default:
        return ""
    new, old = parse_sequence(sequence), parse_sequence(default)
    names = [op.attributes.get(RULE) for op in (old, new)]
    rules = [name.data if isinstance(name, StringAttr) else "hand" for name in names]
    if rules[0] != rules[1]:
        return f"rule {rules[0]} -> {rules[1]}"
    before, after = recorded_choice(old), recorded_choice(new)
    return ", ".join(
        f"{name} {before.get(name, '-')} -> {value}"
        for name, value in after.items()
        if before.get(name) != value
    )
