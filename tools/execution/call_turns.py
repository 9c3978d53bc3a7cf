"""Numbering of the calls of a function that is stable when a pass reorders calls.

A call is identified by its inputs. Unseen inputs get the next unused number of this run, if the
function is called as often as in the last run. Otherwise, such as after merging equal functions,
the call gets a new number.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr


@dataclass
class CallTurns:
    """Call numbers of all functions."""

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
        """Return an independent copy."""
        return deepcopy(self)


@dataclass
class TurnsOfRun:
    """Call numbers of one run."""

    _known: dict[str, dict[bytes, int]]
    _changed: set[str]
    _used: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    def of(self, name: str, inputs: bytes) -> int:
        """Return the number of a function's call, given the digest of its inputs."""
        known = self._known.setdefault(name, {})
        used = self._used.setdefault(name, set())
        if inputs not in known:
            first = max(known.values(), default=-1) + 1 if name in self._changed else 0
            known[inputs] = next(n for n in range(first, first + len(used) + 1) if n not in used)
        used.add(known[inputs])
        return known[inputs]


def calls_in(module: ModuleOp) -> Counter[str]:
    """Count the ops that call each function."""
    symbols = (op.properties.get("callee") for op in module.walk())
    return Counter(each.string_value() for each in symbols if isinstance(each, SymbolRefAttr))
