"""Messages to the process that runs candidates: plain values without IR."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.processes.messages import pack, unpack
from tcopt.tuner.arguments import OUTPUT, Argument, argument_of, dtype_of

Array = NDArray[Any]


@dataclass(frozen=True)
class Code:
    """A kernel's code, and how to call it.

    Attributes:
        symbol: the name of the function in the object; `externals`: C functions that it calls.
        workspace: buffers that are passed after all other arguments.
        launches: for a device, the launches of a call; `data` is then the kernels' source.
        sequence: the schedule, as text; `rule` and `choice`: its rule, and the rule's choice.
        seconds: compile time.
    """

    symbol: str
    data: bytes
    externals: tuple[str, ...] = ()
    workspace: tuple[Argument, ...] = ()
    launches: tuple[Mapping[str, Any], ...] = ()
    sequence: str = ""
    rule: str = ""
    choice: Mapping[str, int | str] | None = None
    seconds: float = 0.0

    @cached_property
    def digest(self) -> str:
        """A hash of the code: equal if two schedules compile to the same code."""
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()

    def to_bytes(self) -> bytes:
        """Serialise the code for `from_bytes`."""
        facts = asdict(self)
        del facts["data"]
        return pack(facts, [self.data])

    @classmethod
    def from_bytes(cls, message: bytes) -> Code:
        """Deserialise a kernel's code.

        Raises:
            ValueError: the message is malformed.
        """
        facts, (data,) = unpack(message)
        workspace = tuple(argument_of(a) for a in facts.pop("workspace"))
        return cls(
            data=bytes(data),
            workspace=workspace,
            externals=tuple(facts.pop("externals")),
            launches=tuple(facts.pop("launches")),
            **facts,
        )


@dataclass(frozen=True)
class Workload:
    """A kernel to measure, independent of its schedule.

    Attributes:
        key: of the task.
        arguments: inputs, weights and outputs, in the order of the call.
        expected: the reference outputs for each set of inputs.
        least_ns: lower bound of the time, by the machine's measured limits; 0 if unknown.
        weight_bytes: total size of the copies of weights, large enough that none stays cached.
        rtol, atol: accepted error: relative to an output's range, and absolute.
        rounds: whether floats are rounded to integers on the way; a few values may then be off by
            one step.
    """

    key: str
    arguments: tuple[Argument, ...]
    expected: tuple[tuple[Array, ...], ...]
    least_ns: float = 0.0
    weight_bytes: int = 0
    rtol: float = 1e-4
    atol: float = 1e-5
    rounds: bool = False

    def to_bytes(self) -> bytes:
        """Serialise the workload for `from_bytes`."""
        arrays = [np.ascontiguousarray(a) for each in self.expected for a in each]
        facts = {
            "key": self.key,
            "arguments": [asdict(a) for a in self.arguments],
            "expected": [[a.dtype.name for a in each] for each in self.expected],
            "least_ns": self.least_ns,
            "weight_bytes": self.weight_bytes,
            "rtol": self.rtol,
            "atol": self.atol,
            "rounds": self.rounds,
        }
        return pack(facts, [a.reshape(-1).view(np.uint8).data for a in arrays])

    @classmethod
    def from_bytes(cls, message: bytes | memoryview) -> Workload:
        """Deserialise a workload.

        Raises:
            ValueError: the message is malformed.
        """
        facts, parts = unpack(bytes(message))
        arguments = tuple(argument_of(a) for a in facts.pop("arguments"))
        shapes = [a.shape for a in arguments if a.role == OUTPUT]
        rest = iter(parts)
        expected = tuple(
            tuple(
                np.frombuffer(next(rest), dtype_of(name)).reshape(shape)
                for name, shape in zip(names, shapes, strict=True)
            )
            for names in facts.pop("expected")
        )
        return cls(arguments=arguments, expected=expected, **facts)
