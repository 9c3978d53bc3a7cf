"""Comparison of a graph's values before and after a pass, op by op.

Values of equal location, type and shape should be equal. An ONNX node may become several such
values, which a pass may reorder, so they are matched by identity and then by content. Values used
only by ops of their own location are implementation details of a node and are not compared.

A pass may move a factor from one op into the weights of another. Such a difference is legal if the
next values along the graph do not show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult

from tcopt.dialects import te
from tcopt.dialects.graph.control.group import GroupOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.support.data.closeness import Tolerance, difference
from tcopt.support.locations import is_known

Array = NDArray[Any]
Change = tuple[Operation, str]
"""An op whose value differs, and a description of the difference."""


@dataclass(frozen=True)
class Probe:
    """A value recorded in a run of a graph.

    The op may change later; it is only compared by identity.

    Attributes:
        turn: number of earlier executions of the op, which may be in the body of a scan.
    """

    result: OpResult
    turn: int
    array: Array


@dataclass
class Located:
    """Values of a graph by origin: location, shape, dtype, and whether the op is a group."""

    by_origin: dict[Any, list[Probe]] = field(default_factory=dict[Any, list[Probe]])
    _turns: Counter[OpResult] = field(default_factory=Counter[OpResult])

    def add(self, op: Operation, results: Sequence[Array]) -> None:
        """Record an op's results that ops of other locations use, if its location is known."""
        if not is_known(op.location) or isinstance(op, ConstantOp):
            return
        # A group has the location of its main op, whose value differs from the group's.
        is_group = isinstance(op, GroupOp | te.CallOp)
        for result, value in zip(op.results, map(np.asarray, results), strict=True):
            if all(use.operation.location == op.location for use in result.uses):
                continue
            origin = (op.location, value.shape, value.dtype.str, is_group)
            probe = Probe(result, self._turns[result], value)
            self._turns[result] += 1
            self.by_origin.setdefault(origin, []).append(probe)

    def __len__(self) -> int:
        return sum(map(len, self.by_origin.values()))


def changed_values(old: Located, new: Located, tolerance: Tolerance) -> dict[OpResult, Change]:
    """Return the values that differ, in the order of the new graph."""
    found: dict[OpResult, Change] = {}
    for origin, probes in new.by_origin.items():
        for result, text in _differences(old.by_origin.get(origin, []), probes, tolerance):
            found.setdefault(result, (result.op, text))
    return found


def _differences(
    old: Sequence[Probe], new: Sequence[Probe], tolerance: Tolerance
) -> Iterator[tuple[OpResult, str]]:
    """Match the values of one origin; yield those of `new` that no value of `old` equals.

    A pass may add or remove values, so each value of the shorter list needs a partner.
    """
    before = {(probe.result, probe.turn): probe for probe in old}
    rest: list[Probe] = []
    for probe in new:
        same = before.pop((probe.result, probe.turn), None)
        if same is None:
            rest.append(probe)
        elif text := _difference(probe, same, tolerance):
            yield probe.result, text
    unmatched = list(before.values())
    lost = min(len(rest), len(unmatched))
    wrong: list[Probe] = []
    for probe in rest:
        partner = next(
            (each for each in unmatched if not _difference(probe, each, tolerance)), None
        )
        if partner is None:
            wrong.append(probe)
        else:
            unmatched.remove(partner)
            lost -= 1
    for probe, expected in zip(wrong[:lost], unmatched, strict=False):
        text = _difference(probe, expected, tolerance)
        assert text is not None
        yield probe.result, text


def _difference(probe: Probe, expected: Probe, tolerance: Tolerance) -> str | None:
    if probe.array is expected.array:
        return None
    return difference(probe.array, expected.array, tolerance)


def first_lasting(old: Located, new: Located, changed: dict[OpResult, Change]) -> Change | None:
    """Return the first difference that also affects a value computed from it."""
    if not changed:
        return None
    known = {
        probe.result
        for origin, probes in new.by_origin.items()
        if origin in old.by_origin
        for probe in probes
    }
    for result, found in changed.items():
        if any(after in changed for after in _next(result, known)):
            return found
    return None


def _next(value: OpResult, known: set[OpResult]) -> Iterator[OpResult]:
    """Yield the nearest values that are known in both graphs and depend on a value."""
    waiting: list[OpResult] = [value]
    seen: set[OpResult] = set(waiting)
    while waiting:
        for use in waiting.pop().uses:
            user = use.operation
            if isinstance(user, ReturnOp):
                continue
            results = list(user.results)
            if not results and (parent := user.parent_op()) is not None:
                results = list(parent.results)[use.index : use.index + 1]
            for result in results:
                if result in known:
                    yield result
                elif result not in seen:
                    seen.add(result)
                    waiting.append(result)
