"""What the process that runs candidates is told, as plain values: it needs no IR."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.messages import pack, unpack
from tcopt.tuner.arguments import OUTPUT, Argument, argument_of, dtype_of

Array = NDArray[Any]


@dataclass(frozen=True)
class Code:
    """A kernel's code, and how it is called.

    Attributes:
        symbol: the name of the function in the object; `externals`: C functions that it calls.
        workspace: buffers that it is given after all other arguments.
        launches: for a device, what a call launches; `data` is then the kernels' text.
        sequence: the schedule, as text; `rule` and `choice`: who wrote it, and from which choice.
        seconds: what it took to compile.
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
        """A hash of the code: equal where two schedules come to the same."""
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()

    def to_bytes(self) -> bytes:
        """What `from_bytes` reads."""
        facts = asdict(self)
        del facts["data"]
        return pack(facts, [self.data])

    @classmethod
    def from_bytes(cls, message: bytes) -> Code:
        """Read code; raises ValueError if it is none."""
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
    """A kernel to measure, whatever its schedule.

    Attributes:
        key: of the task.
        arguments: inputs, weights and outputs, in the order of the call.
        expected: for each set of inputs the right outputs.
        least_ns: no code takes less, as the machine has measured limits; 0 where none is known.
        weight_bytes: how much weights that are in turn should take, so that none is in a cache.
        rtol, atol: accepted error: a share of an output's range, and beside it.
        rounds: whether floats become whole numbers on the way; a few of them then may be a step
            off.
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
        """What `from_bytes` reads."""
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
        """Read a workload; raises ValueError if it is none."""
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
