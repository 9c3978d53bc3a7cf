"""Values of a graph before and after a pass, compared op by op.

Ops of the same location, type and shape should give the same. A pass may well change what lies
between two values, such as a factor that moves from one op into the weights of another; a
difference that the next values along the graph do not show is therefore none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult

from tcopt.support.closeness import Tolerance, difference
from tcopt.tools.execution.traced_run import Located


def changed_values(
    old: Located, new: Located, tolerance: Tolerance
) -> dict[Any, tuple[Operation, str]]:
    """The values that differ, in the order of the new graph: the op, and what is wrong."""
    found: dict[Any, tuple[Operation, str]] = {}
    for key, array in new.values.items():
        expected = old.values.get(key)
        if expected is None or expected is array:
            continue
        text = difference(array, expected, tolerance)
        if text is not None:
            found[key] = new.owners[key], text
    return found


def first_lasting(
    old: Located, new: Located, changed: dict[Any, tuple[Operation, str]]
) -> tuple[Operation, str] | None:
    """The first difference that a value computed from it shows as well."""
    if not changed:
        return None
    keys = {(new.owners[key], key[1]): key for key in new.values if key in old.values}
    for key, found in changed.items():
        if any(after in changed for after in _next(new.owners[key], key[1], keys)):
            return found
    return None


def _next(op: Operation, number: int, keys: dict[Any, Any]) -> Iterator[Any]:
    """The nearest values that are known in both graphs and are computed from a result."""
    waiting: list[OpResult] = [op.results[number]]
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
                key = keys.get((result.op, result.index))
                if key is not None:
                    yield key
                elif result not in seen:
                    seen.add(result)
                    waiting.append(result)
