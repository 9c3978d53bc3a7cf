"""Kinds of targets by name, found by the files that define them.

A kind is an object of a class of `tcopt.targets.interface.TargetKind`. The package's own are in
the files of `targets` that say `TARGET = ...`; a program registers its own:

    @register_target
    class Toy(TargetKind):
        name = "toy"
        ...

A target is written `KIND`, `KIND:MACHINE`, or by the name of a machine alone.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.registration import Registry
from tcopt.support.suggestions import suggest

if TYPE_CHECKING:
    from tcopt.targets.interface import TargetKind

_Kind = TypeVar("_Kind", bound="TargetKind")

HOST_KIND = "cpu"
"""What is compiled for where nothing is said."""

_FOLDER = Path(__file__).parent.parent / "targets"
_DEFINITION = re.compile(r"^TARGET\b", re.MULTILINE)


def _own_kinds() -> dict[str, TargetKind]:
    kinds: dict[str, TargetKind] = {}
    for path in sorted(_FOLDER.glob("*.py")):
        if _DEFINITION.search(path.read_text(encoding="utf-8")):
            kind: TargetKind = importlib.import_module(f"tcopt.targets.{path.stem}").TARGET
            kinds[kind.name] = kind
    return kinds


TARGETS: Registry[str, TargetKind] = Registry("target", _own_kinds)
"""Kinds of targets: the package's, and those that a program has registered."""


def register_target(cls: type[_Kind]) -> type[_Kind]:
    """Make a kind of target known by its name, in place of one of the package's own.

    Its attribute of facts becomes part of a dialect, so that it can be read back, and the form of
    its kernels one that `tcopt -t` knows.

    Raises:
        InputError: another one from outside has the name.
    """
    from tcopt.support.registry import register_output

    kind = cls()
    TARGETS.add(cls.name, kind)
    kind.register_facts()
    output = kind.output()
    if output is not None:
        register_output(output)
    return cls


def target_named(name: str) -> TargetKind:
    """A kind of target.

    Raises:
        UnsupportedError: there is none of the name.
    """
    kind = TARGETS.get(name)
    if kind is None:
        known = list(TARGETS)
        hint = suggest(name, known) or f"targets are {', '.join(known)}"
        raise UnsupportedError(f"there is no target '{name}'", hint=hint)
    return kind


def find_target(text: str) -> tuple[TargetKind, str]:
    """The kind that a text such as `cpu`, `cpu:haswell` or `sm_80` names, and the machine.

    Returns:
        An empty name for the kind's default machine.
    Raises:
        UnsupportedError: there is no such kind, or the machine is one of another kind.
        InputError: there is no such machine.
    """
    name, _, machine = text.partition(":")
    if name in TARGETS:
        kind = TARGETS[name]
        if machine:
            _check_machine(kind, machine)
        return kind, machine
    if not machine:
        for kind in kinds_with(text):
            return kind, text
    return target_named(name), machine


def kinds_with(machine: str) -> Iterator[TargetKind]:
    """The kinds that have a machine of a name."""
    return (kind for kind in TARGETS.values() if machine in kind.machines)


def _check_machine(kind: TargetKind, machine: str) -> None:
    if kind.has_machine(machine):
        return
    for other in kinds_with(machine):
        raise UnsupportedError(
            f"'{machine}' is reached by {other.name}, not by {kind.name}",
            hint=f"target {other.name}:{machine}; machines of {kind.name} are "
            f"{', '.join(kind.machines)}",
        )
    raise unknown_machine(kind, machine)


def unknown_machine(kind: TargetKind, machine: str) -> InputError:
    """The error for a machine that a kind does not have."""
    known = ", ".join(kind.machines) or "none"
    return InputError(
        f"target {kind.name} has no machine '{machine}'", hint=f"known machines: {known}"
    )
