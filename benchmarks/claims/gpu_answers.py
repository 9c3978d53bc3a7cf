"""Answers from rows of `gpu.py`; without rows, a sentence that no GPU was available."""

from __future__ import annotations

from claims.results import Results
from gpus.rows import Row
from gpus.sides import EAGER, OURS
from tcopt.tools.benchmarking.report import geometric_mean

NO_CARD = "No GPU was available."


def without_card(results: Results) -> str:
    """The sentence where nothing was measured, else nothing."""
    return "" if results.card else NO_CARD


def _sides(results: Results, group: str, dtype: str = "") -> dict[str, dict[str, Row]]:
    """Rows of a group by case, type, batch and variant, and then by side."""
    found: dict[str, dict[str, Row]] = {}
    for key, row in results.gpu.items():
        is_own = row.get("group") == group and "side" in row and "us" in row
        if is_own and row["dtype"] in (dtype or row["dtype"]):
            found.setdefault(key.rpartition("/")[0], {})[row["side"]] = row
    return found


def ratios(results: Results, group: str) -> str:
    """Speed relative to PyTorch by type of numbers; nothing without a card."""
    parts: list[str] = []
    for dtype in ("f32", "f16", "bf16", "int8"):
        found = [
            sides[EAGER]["us"] / sides[OURS]["us"]
            for sides in _sides(results, group, dtype).values()
            if {OURS, EAGER} <= set(sides)
        ]
        if found:
            mean = geometric_mean(found)
            parts.append(f"{dtype} {mean:.2f}x ({min(found):.2f} to {max(found):.2f})")
    if not parts:
        return ""
    return f"On {results.card}, {group} against PyTorch: {', '.join(parts)}. "


def gains(results: Results, group: str, variant: str) -> str:
    """Gain of a decision in each case of a group; nothing without a card."""
    sides = _sides(results, group)
    parts: list[str] = []
    for key, changed in sides.items():
        if not key.endswith(f"/{variant}"):
            continue
        base = sides.get(key.removesuffix(variant), {})
        if OURS in base and OURS in changed:
            gain = changed[OURS]["us"] / base[OURS]["us"]
            parts.append(f"{base[OURS]['case']} {gain:.2f}x")
    return f"On {results.card}: {', '.join(parts)}. " if parts else ""
