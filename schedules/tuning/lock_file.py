"""Lock files: the tuned schedules of a model, as text stored next to it.

    builtin.module attributes {tuned.version = 1 : i64,
        tuned.targets = {"9f0c" = #target.cpu<...>}} {
      sched.sequence @conv_relu_1f2e for @conv_relu attributes {tuned.workload = "1f2e...",
          tuned.target = "9f0c", rule = "cpu-contraction", choice = {rows = 7 : i64},
          tuned.gain = 1.21 : f64} {
        %conv = sched.get_block "conv"
        ...
      }
      sched.operator "77ab..." attributes {tuned.target = "9f0c", nodes = ["Conv_3"],
          choice = {winograd = 4 : i64}}
    }

The steps of a sequence take precedence. A sequence without steps stands for the steps that its rule
writes for `choice`, and without `choice` for the default schedule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from tcopt.dialects.sched import OperatorOp, SequenceOp
from tcopt.schedules.rules.recorded import CHOICE
from tcopt.support.errors import InputError, ParsingError, TcoptError
from tcopt.support.files.file_contents import content
from tcopt.support.locations import describe_location
from tcopt.support.pipelines.running import new_context
from tcopt.support.syntax.parsing import LocatedParser

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

VERSION = 1

VERSION_ATTRIBUTE = "tuned.version"
TARGETS = "tuned.targets"
WORKLOAD = "tuned.workload"
TARGET = "tuned.target"
GAIN = "tuned.gain"
RULE = "rule"

OPTIONAL = "tuned.optional"
"""On a sequence: use the default schedule instead if the sequence does not apply."""

_ENTRY = re.compile(r"^[ \t]*sched\.(?:sequence|operator)\b", re.M)
"""Matches the beginning of an entry."""
_COMMENT = re.compile(r"//[^\n]*")
_HEADER = re.compile(r"^builtin\.module\b[^\n]*\{[ \t]*\n", re.M)

_FIX = "correct the line, tune the model again, or compile without it: --no-tuned, tuned=False"


@dataclass(frozen=True)
class LockEntry:
    """Entry of a lock file for one kernel.

    Attributes:
        sequence: its schedule.
        rule, choice: the rule and choice that wrote the schedule, if recorded.
        gain: measured speed-up over the default schedule.
    """

    sequence: SequenceOp
    workload: str
    target: str
    rule: str = ""
    choice: Mapping[str, int | str] | None = None
    gain: float = 1.0

    @property
    def has_steps(self) -> bool:
        """Whether the entry contains the steps of the schedule."""
        return self.sequence.body.block.first_op is not None


@dataclass
class LockFile:
    """Contents of a lock file.

    Attributes:
        kernels: entries by workload key and target key.
        operators: choices for operators of the graph, by operator key and target key.
        targets: targets by key.
        refused: errors of the entries that were skipped.
    """

    path: str = ""
    kernels: dict[tuple[str, str], LockEntry] = field(
        default_factory=dict[tuple[str, str], LockEntry]
    )
    operators: dict[tuple[str, str], OperatorOp] = field(
        default_factory=dict[tuple[str, str], OperatorOp]
    )
    targets: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    refused: list[TcoptError] = field(default_factory=list[TcoptError])


def read_lock(path: str | Path, digest: str = "") -> LockFile:
    """Read a lock file.

    Args:
        digest: hash of the contents when the model was loaded; selects these contents.
    Raises:
        InputError: the file does not exist, or is not a lock file of this version.
        ParsingError: the file does not parse, and cannot be split into entries.
    """
    return _read(str(path), content(path, digest))


@lru_cache(maxsize=8)
def _read(path: str, data: bytes) -> LockFile:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InputError(f"'{path}' is not text", hint=_FIX) from None
    return parse_lock(text, path)


def parse_lock(text: str, path: str) -> LockFile:
    """Parse the text of a lock file; see `read_lock`.

    Malformed entries are skipped; their errors are in `refused`.
    """
    lock = LockFile(path)
    try:
        module = _parse(text, path)
        entries = list(module.ops)
    except TcoptError as error:
        module, entries = _parse_apart(text, path, lock, error)
    _check_version(module, path)
    targets = module.attributes.get(TARGETS)
    if isinstance(targets, DictionaryAttr):
        lock.targets.update(targets.data)
    for op in entries:
        try:
            _add_entry(lock, op)
        except TcoptError as error:
            lock.refused.append(error)
    return lock


def _parse(text: str, path: str) -> ModuleOp:
    try:
        return LocatedParser(new_context(), text, path).parse_module()
    except ParseError as error:
        raise ParsingError(_first_line(error), where=_place_of(error, path), hint=_FIX) from None


def _parse_apart(
    text: str, path: str, lock: LockFile, error: TcoptError
) -> tuple[ModuleOp, list[Operation]]:
    """Parse the entries of a text one by one, after parsing the whole text failed.

    Returns:
        The module without entries, and the entries that parse.
    Raises:
        TcoptError: the given error, if no line starts an entry or the rest does not parse.
    """
    starts = [match.start() for match in _ENTRY.finditer(text)]
    header = _HEADER.search(text)
    if header is not None:
        # The first entry is taken to start after the header, in case its first line is damaged.
        starts = [header.end(), *(start for start in starts if start > header.end())]
    if not starts:
        raise error
    try:
        module = _parse(text[: starts[0]] + "}", path)
    except TcoptError:
        raise error from None
    found: list[Operation] = []
    last = len(text.rstrip().removesuffix("}"))
    for start, end in zip(starts, [*starts[1:], last], strict=True):
        # Blank lines preserve line numbers.
        lines, entry = "\n" * text.count("\n", 0, start), text[start : max(start, end)]
        if not _COMMENT.sub("", entry).strip():
            continue
        try:
            found += _parse(lines + entry, path).ops
        except TcoptError as refusal:
            lock.refused.append(refusal)
    return module, found


def _add_entry(lock: LockFile, op: Operation) -> None:
    try:
        op.verify()
    except VerifyException as error:
        raise _wrong(op, " ".join(str(error).split())) from error
    except RecursionError:
        raise _wrong(op, "the entry is nested too deeply") from None
    if isinstance(op, SequenceOp):
        entry = _entry(op)
        _add(lock.kernels, (entry.workload, entry.target), entry, op)
    elif isinstance(op, OperatorOp):
        choice_of(op)
        _add(lock.operators, (op.operator.data, _text(op, TARGET)), op, op)
    else:
        raise _wrong(op, f"a lock file has no '{op.name}'")


def _check_version(module: ModuleOp, path: str) -> None:
    version = module.attributes.get(VERSION_ATTRIBUTE)
    if not isinstance(version, IntegerAttr):
        raise InputError(
            f"'{path}' is not a lock file: its module has no {VERSION_ATTRIBUTE}", hint=_FIX
        )
    if version.value.data != VERSION:
        raise InputError(
            f"'{path}' has lock file version {version.value.data}, expected {VERSION}",
            hint="tune the model again",
        )


def _add(known: dict[_Key, _Value], key: _Key, value: _Value, op: Operation) -> None:
    if key in known:
        raise _wrong(op, "an earlier entry is for the same kernel and target")
    known[key] = value


def _entry(op: SequenceOp) -> LockEntry:
    rule = op.attributes.get(RULE)
    gain = op.attributes.get(GAIN)
    entry = LockEntry(
        op,
        _text(op, WORKLOAD),
        _text(op, TARGET),
        rule.data if isinstance(rule, StringAttr) else "",
        choice_of(op),
        gain.value.data if isinstance(gain, FloatAttr) else 1.0,
    )
    if entry.choice is not None and not entry.rule:
        raise _wrong(op, f"the entry has a {CHOICE}, but no {RULE}")
    return entry


def choice_of(op: Operation) -> dict[str, int | str] | None:
    """Return the choice of an entry; None if it has none.

    Raises:
        InputError: a value is neither an integer nor a string.
    """
    found = op.attributes.get(CHOICE)
    if found is None:
        return None
    if not isinstance(found, DictionaryAttr):
        raise _wrong(op, f"{CHOICE} must be a dictionary of integers and strings")
    choice: dict[str, int | str] = {}
    for name, value in found.data.items():
        if isinstance(value, StringAttr):
            choice[name] = value.data
        elif isinstance(value, IntegerAttr):
            choice[name] = value.value.data
        else:
            raise _wrong(op, f"{CHOICE} of '{name}' is neither an integer nor a string")
    return choice


def _text(op: Operation, name: str) -> str:
    found = op.attributes.get(name)
    if not isinstance(found, StringAttr):
        raise _wrong(op, f"the entry has no {name}")
    return found.data


def _wrong(op: Operation, message: str) -> InputError:
    return InputError(message, where=describe_location(op.location), hint=_FIX)


def _first_line(error: ParseError) -> str:
    return next((x.strip() for x in error.msg.strip().splitlines() if x.strip()), "syntax error")


def _place_of(error: ParseError, path: str) -> str:
    content = error.span.input.content
    text = content if isinstance(content, str) else content.decode(errors="replace")
    before = text[: error.span.start]
    return f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
