"""Encoded programs as settings of a host function, in a form for IR attributes and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.exceptions import VerifyException

from tcopt.backends.vdla.encoding import Encoded
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla.stream import Buffer
from tcopt.support.errors import InputError

FUNCTION = "vdla_run"
"""The host function that runs a program, see `host_functions.py`."""

Settings = Mapping[str, Any]


def settings_of(encoded: Encoded, target: VdlaTargetAttr) -> dict[str, Any]:
    """Return an encoded program and its machine, for arrays of these shapes and types."""
    return {
        "program": encoded.name,
        "machine": [f"{name}={value}" for name, value in target.facts().items()],
        "buffers": [buffer.name for buffer, _ in encoded.buffers],
        "addresses": [address for _, address in encoded.buffers],
        "table": encoded.table,
        "micro_ops": encoded.micro_ops.astype("<u4").tobytes().hex(),
        "instructions": encoded.instructions.astype("<u8").tobytes().hex(),
    }


def program_in(
    settings: Settings, shapes: Sequence[tuple[int, ...]], bits: Sequence[int]
) -> tuple[Encoded, VdlaTargetAttr]:
    """Return the program and machine in settings.

    Args:
        shapes: shapes of the buffers. bits: widths of their elements.
    Raises:
        InputError: there is none.
    """
    try:
        names, addresses = settings["buffers"], settings["addresses"]
        buffers = tuple(
            (Buffer(str(name), tuple(shape), size), int(address))
            for name, address, shape, size in zip(names, addresses, shapes, bits, strict=True)
        )
        encoded = Encoded(
            str(settings["program"]),
            buffers,
            int(settings["table"]),
            _words(settings["micro_ops"], "<u4"),
            _words(settings["instructions"], "<u8").reshape(-1, 2),
        )
        return encoded, _machine(settings["machine"])
    except (LookupError, TypeError, ValueError, AttributeError, VerifyException) as error:
        raise InputError(f"this is not a program of an accelerator: {error}") from error


def _machine(facts: Iterable[str]) -> VdlaTargetAttr:
    found: dict[str, str] = {}
    for fact in facts:
        name, _, value = fact.partition("=")
        found[name] = value
    return VdlaTargetAttr.of_facts(found)


def _words(text: str, dtype: str) -> NDArray[Any]:
    return np.frombuffer(bytes.fromhex(text), dtype).astype(dtype[1:])
