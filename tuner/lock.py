"""Writer of lock files: tuning results of a model, as text that can be read and edited.

`tcopt.schedules.tuning.lock_file` defines the format and reads it.
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
from tcopt.support.files.access import write_output
from tcopt.support.syntax.parsing import TextParser
from tcopt.tuner.measure.sequences import parse_sequence
from tcopt.tuner.tasks import Task

_HEAD = """// Schedules that were found for {model}.
// They are applied while the file is next to the model, and may be edited. The steps of an entry
// take precedence. Without steps, its rule applies its choice; without an entry, the default
// schedule is used.
"""
_DIGITS = 8
_INDENT = "  "


@dataclass(frozen=True)
class TunedKernel:
    """Tuning result of one kernel.

    Attributes:
        sequence: the schedule as text; empty if nothing is faster than the default.
        default: the default schedule, to show the difference.
        ns, default_ns: times of a call; `low`, `high`: confidence interval of the speedup.
        code_version: version of the compiler that produced the schedule.
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
        """Speedup over the default."""
        return self.default_ns / self.ns if self.ns and self.default_ns else 1.0


@dataclass(frozen=True)
class TunedOperator:
    """Choice for operators of the graph.

    Attributes:
        key: of the operator, see `apply_tuning.operator_key`.
        nodes: the ONNX nodes, for information.
    """

    key: str
    target: str
    choice: Mapping[str, int | str]
    nodes: Sequence[str] = ()
    gain: float = 1.0


@dataclass
class LockWriter:
    """Contents of a model's lock file before it is written.

    Args:
        model: the name of the model, for information.
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
        """Keep the entries of a file, except those for targets that were tuned again."""
        for key, entry in lock.kernels.items():
            if key[1] not in without:
                self._kernels[key] = entry.sequence.clone(), ""
        for key, op in lock.operators.items():
            if key[1] not in without:
                self._operators[key] = op.clone(), ""
        self.targets.update({k: v for k, v in lock.targets.items() if k not in without})

    def add_kernel(self, found: TunedKernel) -> None:
        """Add the result of a kernel, replacing an earlier one."""
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
        """Add the choice for operators of the graph."""
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
        """Return the text of the whole file."""
        empty = ModuleOp([], self._attributes())
        head = str(empty).replace("{\n}", "{", 1).rstrip("}").rstrip()
        parts = [_HEAD.format(model=self.model or "a model"), head.rstrip("{").rstrip(), " {\n"]
        for op, comment in (*self._operators.values(), *self._kernels.values()):
            lines = str(op).splitlines()
            parts += [f"{_INDENT}// {line}\n" for line in comment.splitlines()]
            parts += [f"{_INDENT}{line}\n" for line in lines]
        return "".join([*parts, "}\n"])

    def write(self, path: str | Path) -> None:
        """Write the file atomically.

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
    """Return a writer that keeps the entries of an existing file for other targets.

    Args:
        tuned: keys of the targets that were tuned again.
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
    """Describe how the choices of one schedule differ from another's; empty if they do not."""
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
