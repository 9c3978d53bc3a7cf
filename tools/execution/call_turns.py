"""Numbers for the calls of a function, which stay the same when a pass reorders calls.

A call is recognised by its inputs. Inputs that were not seen before belong to the next number
that this run has not used, as long as the function is called as often as in the last run. If not,
as after equal functions were merged, the call is a new one.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr


@dataclass
class CallTurns:
    """The numbers of all calls, by function."""

    _known: dict[str, dict[bytes, int]] = field(default_factory=dict[str, dict[bytes, int]])
    _counts: Counter[str] = field(default_factory=Counter[str])

    def start(self, module: ModuleOp) -> TurnsOfRun:
        """Begin a run of a module."""
        counts = calls_in(module)
        changed = {name for name in counts if name in self._counts}
        changed = {name for name in changed if counts[name] != self._counts[name]}
        self._counts = counts
        return TurnsOfRun(self._known, changed)

    def fork(self) -> CallTurns:
        """A copy that shares nothing."""
        return deepcopy(self)


@dataclass
class TurnsOfRun:
    """The numbers of the calls of one run."""

    _known: dict[str, dict[bytes, int]]
    _changed: set[str]
    _used: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    def of(self, name: str, inputs: bytes) -> int:
        """The number of a function's call on inputs of a digest."""
        known = self._known.setdefault(name, {})
        used = self._used.setdefault(name, set())
        if inputs not in known:
            first = max(known.values(), default=-1) + 1 if name in self._changed else 0
            known[inputs] = next(n for n in range(first, first + len(used) + 1) if n not in used)
        used.add(known[inputs])
        return known[inputs]


def calls_in(module: ModuleOp) -> Counter[str]:
    """The number of ops that call each function."""
    symbols = (op.properties.get("callee") for op in module.walk())
    return Counter(each.string_value() for each in symbols if isinstance(each, SymbolRefAttr))
