"""A compiled kernel: object code, and the facts that the host program needs to call it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from xdsl.ir import Operation

from tcopt.runtime.description import extent_facts, extent_of, extents_by_name, size_names
from tcopt.runtime.device.steps import KernelLaunch
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.locations import describe_location, nearest_location
from tcopt.support.machines.instruction_places import with_nodes
from tcopt.support.remarks import Remark, replay

_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Kernel:
    """A function compiled from the loop level to machine code.

    Attributes:
        symbol: symbol of the code in its object file.
        code: the object file.
        externals: C functions that the code calls.
        workspace: types of the workspace buffers that a caller passes after all arguments.
        parallel: whether it has a parallel loop.
        remarks: decisions of passes and schedule rules, independent of the location in a model.
        seconds: compile time of each phase.
        launches: for a device, the launches that make up a call of the function; `code` is then the
            source text of their kernels.
        host_call: host function and its settings, called instead of `code`.
    """

    symbol: str
    code: bytes
    externals: tuple[str, ...]
    workspace: tuple[str, ...]
    parallel: bool
    remarks: tuple[Remark, ...]
    seconds: dict[str, float]
    launches: tuple[KernelLaunch, ...] = ()
    host_call: tuple[str, Mapping[str, Any]] | None = None

    def to_bytes(self) -> bytes:
        """Serialise the kernel for `from_bytes`."""
        facts: dict[str, Any] = {
            "symbol": self.symbol,
            "externals": self.externals,
            "workspace": self.workspace,
            "parallel": self.parallel,
            "remarks": [asdict(remark) for remark in self.remarks],
            "seconds": self.seconds,
            "launches": [_launch_facts(launch) for launch in self.launches],
            "host_call": self.host_call,
        }
        header = json.dumps(facts).encode()
        return len(header).to_bytes(_LENGTH_BYTES, "little") + header + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Kernel:
        """Deserialise a kernel; raise ValueError if the bytes are not one."""
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
        try:
            return cls._of(json.loads(data[_LENGTH_BYTES:end]), data[end:])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a kernel: {error}") from error

    @classmethod
    def _of(cls, facts: dict[str, Any], code: bytes) -> Kernel:
        return cls(
            symbol=facts["symbol"],
            code=code,
            externals=tuple(facts["externals"]),
            workspace=tuple(facts["workspace"]),
            parallel=facts["parallel"],
            remarks=tuple(Remark(**remark) for remark in facts["remarks"]),
            seconds=facts["seconds"],
            launches=tuple(_launch(launch) for launch in facts["launches"]),
            host_call=_call(facts["host_call"]),
        )

    def named(self, nodes: Sequence[Sequence[str]]) -> Kernel:
        """Return the kernel with op labels in its host call replaced by the nodes of a function."""
        if self.host_call is None:
            return self
        function, settings = self.host_call
        told = {op_label(n): ", ".join(names) for n, names in enumerate(nodes) if names}
        return replace(self, host_call=(function, with_nodes(settings, told)))

    def replay_remarks(self, name: str, where: str) -> None:
        """Report the stored remarks as being about the function `name` at a location of a model."""
        if self.remarks:
            replay([replace(r, subject=_named(r.subject, name), where=where) for r in self.remarks])


def op_label(number: int) -> str:
    """Label of an op by its number; stands for its nodes in code shared by equal functions."""
    return f"#{number}"


def _call(facts: Sequence[Any] | None) -> tuple[str, Mapping[str, Any]] | None:
    if facts is None:
        return None
    function, settings = facts
    return str(function), dict(settings)


_FORMULAS = ("grid", "sizes")
"""Attributes of a launch that are extents."""


def _launch_facts(launch: KernelLaunch) -> dict[str, Any]:
    """Return a launch as JSON values."""
    names = size_names(launch.symbols)
    formulas = {
        name: [extent_facts(extent, names) for extent in getattr(launch, name)]
        for name in _FORMULAS
    }
    return {**asdict(launch), **formulas}


def _launch(facts: dict[str, Any]) -> KernelLaunch:
    """Rebuild a launch from JSON."""
    symbols = tuple(Symbol(**symbol) for symbol in facts["symbols"])
    known = extents_by_name(symbols)
    grid, sizes = (tuple(extent_of(e, name, known) for e in facts[name]) for name in _FORMULAS)
    x, y, z = grid
    block, arguments = (tuple(facts[name]) for name in ("block", "arguments"))
    return KernelLaunch(facts["kernel"], (x, y, z), block, arguments, sizes, symbols)


def describe_place(function: Operation) -> str:
    """Return the location of a function in the form that remarks use."""
    return (describe_location(nearest_location(function)) or "").strip('"')


def without_place(remarks: Sequence[Remark]) -> tuple[Remark, ...]:
    """Return remarks without function name and location, valid for all models with the kernel."""
    return tuple(replace(r, subject=_named(r.subject, ""), where="") for r in remarks)


def _named(subject: str, name: str) -> str:
    """Rename the function in the subject of a remark, which starts with `@`."""
    return f"@{name}" if subject.startswith("@") else subject
