"""A compiled kernel: object code, and what the host program must know to call it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from xdsl.ir import Operation

from tcopt.runtime.device.steps import KernelLaunch
from tcopt.support.instruction_places import with_nodes
from tcopt.support.locations import describe_location, nearest_location
from tcopt.support.remarks import Remark, replay

_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Kernel:
    """One function from the loop level down to machine code.

    Attributes:
        symbol: the name of the code in its object file.
        code: the object file.
        externals: C functions that the code calls.
        workspace: types of the buffers that a caller gives after all other arguments.
        parallel: whether it has a parallel loop.
        remarks: what passes and rules decided, about no particular place of a model.
        seconds: how long each phase took when it was compiled.
        launches: for a device, what a call of the function launches; `code` is then the text of
            these kernels.
        host_call: the host function, with its settings, that is called in place of code.
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
        """What `from_bytes` reads."""
        facts: dict[str, Any] = {
            "symbol": self.symbol,
            "externals": self.externals,
            "workspace": self.workspace,
            "parallel": self.parallel,
            "remarks": [asdict(remark) for remark in self.remarks],
            "seconds": self.seconds,
            "launches": [asdict(launch) for launch in self.launches],
            "host_call": self.host_call,
        }
        header = json.dumps(facts).encode()
        return len(header).to_bytes(_LENGTH_BYTES, "little") + header + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Kernel:
        """Read a kernel; raises ValueError if it is none."""
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
        """The kernel as that of a function whose ops come from these nodes."""
        if self.host_call is None:
            return self
        function, settings = self.host_call
        told = {op_label(n): ", ".join(names) for n, names in enumerate(nodes) if names}
        return replace(self, host_call=(function, with_nodes(settings, told)))

    def replay_remarks(self, name: str, where: str) -> None:
        """Pass the remarks on, as made about the function `name` at a place of a model."""
        if self.remarks:
            replay([replace(r, subject=_named(r.subject, name), where=where) for r in self.remarks])


def op_label(number: int) -> str:
    """What stands for the nodes of an op of a function, by its number, in code for all that are
    like it."""
    return f"#{number}"


def _call(facts: Sequence[Any] | None) -> tuple[str, Mapping[str, Any]] | None:
    if facts is None:
        return None
    function, settings = facts
    return str(function), dict(settings)


def _launch(facts: dict[str, Any]) -> KernelLaunch:
    """A launch whose tuples JSON has made lists."""
    return KernelLaunch(
        facts["kernel"], *(tuple(facts[name]) for name in ("grid", "block", "arguments"))
    )


def describe_place(function: Operation) -> str:
    """Where a function comes from, as remarks say it."""
    return (describe_location(nearest_location(function)) or "").strip('"')


def without_place(remarks: Sequence[Remark]) -> tuple[Remark, ...]:
    """Remarks that fit every model with the same kernel."""
    return tuple(replace(r, subject=_named(r.subject, ""), where="") for r in remarks)


def _named(subject: str, name: str) -> str:
    """The subject of a remark about a function, which starts with `@`, under another name."""
    return f"@{name}" if subject.startswith("@") else subject
