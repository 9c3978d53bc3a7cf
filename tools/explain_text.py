"""Text of an explanation: decisions and missed optimisations of each expensive operator."""

from __future__ import annotations

import textwrap

from tcopt.runtime.explanation import Decisions, Explanation
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.remarks import Remark

_WIDTH = 100
_INDENT = 14
_NAMES_SHOWN = 6


def explanation_text(explanation: Explanation, *, share: float = 0.01) -> str:
    """Return the calls in decreasing order of work, as text.

    Args:
        share: calls with a smaller part of the work are only counted.
    """
    heavy = explanation.heaviest(share)
    lines: list[str] = []
    for number, decisions in enumerate(heavy, 1):
        lines += [*_call(number, decisions), ""]
    rest = len(explanation.calls) - len(heavy)
    if rest:
        calls = "1 other kernel call" if rest == 1 else f"{rest} other kernel calls, each"
        lines.append(f"{calls} with less than {share:.0%} of the work")
    return "\n".join(lines).rstrip()


def _call(number: int, decisions: Decisions) -> list[str]:
    call, origin = decisions.call, decisions.call.origin
    names = ", ".join(origin.nodes[:_NAMES_SHOWN]) or call.kernel
    more = len(origin.nodes) - _NAMES_SHOWN
    lines = [
        f"{number}. {names}{f' and {more} more' if more > 0 else ''}: "
        f"{decisions.share:.1%} of the work, {_work(upper_bound(origin.work))}",
        *_entry("operators", " + ".join(origin.ops)),
        *_entry("result", ", ".join(origin.results)),
        *_entry("kernel", f"{call.kernel}, {'parallel' if call.parallel else 'one thread'}"),
        *_entry("rule", call.rule or "none"),
    ]
    for remark in decisions.choices:
        lines += _entry("done", _described(remark))
    for remark in decisions.missed:
        lines += _entry("slow" if remark.slow else "not done", _described(remark))
    return lines


def _described(remark: Remark) -> str:
    about = "" if remark.subject.startswith("@") else f" ({remark.subject})"
    return f"{remark.by}{about}: {remark.message}"


def _work(work: int) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if work >= size:
            return f"{work / size:.1f} {unit} operations"
    return f"{work} operations"


def _entry(heading: str, text: str) -> list[str]:
    first = f"   {heading:<{_INDENT - 3}}"
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=" " * _INDENT, break_on_hyphens=False
    )
