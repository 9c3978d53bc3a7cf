"""Target kinds by name.

A kind is an instance of a subclass of `tcopt.targets.interface.TargetKind`, whose module registers
it:

    @register_target
    class Toy(TargetKind):
        name = "toy"
        ...

A target is written as `KIND`, `KIND:MACHINE`, or the name of a machine alone. The text of a target
attribute, such as `#target.cpu<...>`, also names a machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.registries.registration import Registry
from tcopt.support.suggestions import suggest

if TYPE_CHECKING:
    from tcopt.targets.interface import TargetKind

_Kind = TypeVar("_Kind", bound="TargetKind")

HOST_KIND = "cpu"
"""Default target kind."""

TARGETS: Registry[str, TargetKind] = Registry("target")
"""Target kinds: the package's own and registered ones."""


def register_target(cls: type[_Kind]) -> type[_Kind]:
    """Register a target kind by its name, overriding one of the package; a decorator.

    Its target attribute is added to its dialect, so that it can be parsed. Its kernels become an
    output format of `tcopt -t`.

    Raises:
        InputError: another registered kind has the name.
    """
    kind = cls()
    if not TARGETS.add(cls.name, kind, by=cls):
        return cls  # The package's dialects and output formats are found without their kind.
    from tcopt.support.registries.registry import register_output

    kind.register_facts()
    output = kind.output()
    if output is not None:
        register_output(output)
    return cls


def target_named(name: str) -> TargetKind:
    """Return a target kind by name.

    Raises:
        UnsupportedError: no kind has this name.
    """
    kind = TARGETS.get(name)
    if kind is None:
        known = list(TARGETS)
        hint = suggest(name, known) or f"targets are {', '.join(known)}"
        raise UnsupportedError(f"there is no target '{name}'", hint=hint)
    return kind


def find_target(text: str) -> tuple[TargetKind, str]:
    """Return the kind and machine named by a text such as `cpu`, `cpu:haswell` or `sm_80`.

    Returns:
        The kind, and the name of the machine, which is empty for the default one.
    Raises:
        UnsupportedError: the kind does not exist, or the machine is one of another kind.
        InputError: the machine does not exist.
    """
    if is_attribute(text):
        return _kind_of_attribute(text), text
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


def is_attribute(machine: str) -> bool:
    """Whether a machine is given by the text of its target attribute instead of its name."""
    return machine.startswith("#")


def _kind_of_attribute(text: str) -> TargetKind:
    """Return the kind of a target attribute. Some kinds share a class of attributes."""
    name = text[1:].partition("<")[0].strip()
    for kind in TARGETS.values():
        if kind.facts.name == name:
            return target_named(kind.attribute(text).kind)
    known = ", ".join(sorted({kind.facts.name for kind in TARGETS.values()}))
    raise InputError(f"unknown target attribute '#{name}'", hint=f"known attributes are {known}")


def kinds_with(machine: str) -> Iterator[TargetKind]:
    """Yield the kinds that have a machine of this name."""
    return (kind for kind in TARGETS.values() if machine in kind.machines)


def _check_machine(kind: TargetKind, machine: str) -> None:
    if is_attribute(machine):
        kind.attribute(machine)
        return
    if kind.has_machine(machine):
        return
    for other in kinds_with(machine):
        raise UnsupportedError(
            f"'{machine}' is a machine of target {other.name}, not {kind.name}",
            hint=f"use {other.name}:{machine}; machines of {kind.name} are "
            f"{', '.join(kind.machines)}",
        )
    raise unknown_machine(kind, machine)


def unknown_machine(kind: TargetKind, machine: str) -> InputError:
    """Return the error for a machine that a kind does not have."""
    known = ", ".join(kind.machines) or "none"
    return InputError(
        f"target {kind.name} has no machine '{machine}'", hint=f"known machines: {known}"
    )
