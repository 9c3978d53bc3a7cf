"""Check and time accelerator candidates on a simulator, as run by builder processes.

Cycles are exact, so one run is enough.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.compiler.passes import shared_context
from tcopt.dialects.target import TargetFacts
from tcopt.support.errors import TcoptError
from tcopt.support.registries.target_registry import target_named
from tcopt.support.syntax.parsing import TextParser
from tcopt.tuner.arguments import OUTPUT
from tcopt.tuner.measure.closeness import output_error
from tcopt.tuner.measure.outcomes import WRONG, CandidateFailed
from tcopt.tuner.measure.values import SETS, make_values, poison
from tcopt.tuner.measure.workload import Workload

Array = NDArray[Any]
HostCall = tuple[str, Mapping[str, Any]]


def code_of_call(call: HostCall) -> bytes:
    """Encode a call of a host function as code; equal calls have equal code."""
    return json.dumps({"function": call[0], "settings": dict(call[1])}, sort_keys=True).encode()


def call_of_code(data: bytes) -> HostCall:
    """Decode the call of `code_of_call`."""
    found = json.loads(data)
    return found["function"], found["settings"]


def simulate(data: bytes, workload: Workload, target: str) -> float:
    """Return the nanoseconds that a program takes on its machine, by the machine's simulator.

    Args:
        data: code of the candidate.
        target: the attribute of the machine, as text.
    Raises:
        CandidateFailed: results differ from the reference, or the simulator reports an error.
    """
    facts = TextParser(shared_context(), target).parse_attribute()
    assert isinstance(facts, TargetFacts)
    call, ns = call_of_code(data), 0.0
    for kind in range(SETS):
        arrays = [
            np.empty(each.shape, each.dtype)
            if each.role == OUTPUT
            else make_values(each.shape, each.dtype, number, kind)
            for number, each in enumerate(workload.arguments)
        ]
        given = [array.copy() for array in arrays]
        outputs = [number for number, each in enumerate(workload.arguments) if each.role == OUTPUT]
        for number in outputs:
            poison(arrays[number])
        try:
            ns = target_named(facts.kind).simulate(facts, call, arrays)
        except TcoptError as error:
            raise CandidateFailed(WRONG, error.message) from error
        for number, (before, after) in enumerate(zip(given, arrays, strict=True)):
            if number not in outputs and not np.array_equal(before, after):
                raise CandidateFailed(WRONG, f"argument {number} is an input, and was written")
        for number, expected in enumerate(workload.expected[kind]):
            wrong = _difference(arrays[outputs[number]], expected, workload)
            if wrong:
                raise CandidateFailed(WRONG, f"output {number}: {wrong}")
    return ns


def _difference(actual: Array, expected: Array, workload: Workload) -> str:
    """Describe the error of an output; integers must match exactly unless floats were rounded to
    them.
    """
    if actual.dtype.kind in "iub" and not workload.rounds:
        count = int(np.count_nonzero(actual != expected))
        return f"{count} of {actual.size} elements are wrong" if count else ""
    return output_error(actual, expected, workload, 0.0).text
