"""Answers from the rows of `gpu.py`."""

from __future__ import annotations

from collections.abc import Iterator

from claims.results import Results
from gpus.rows import Row
from gpus.sides import EAGER, OURS
from tcopt.tools.benchmarking.report import geometric_mean

GPU = "gpu"
"""Name of the result."""

DTYPES = ("f32", "f16", "bf16", "int8")


def _sides(results: Results, group: str, dtype: str = "") -> dict[str, dict[str, Row]]:
    """Rows of a group by case, type, batch and variant, and then by side."""
    found: dict[str, dict[str, Row]] = {}
    for key, row in results.gpu.items():
        is_own = row.get("group") == group and "side" in row and "us" in row
        if is_own and row["dtype"] == (dtype or row["dtype"]):
            found.setdefault(key.rpartition("/")[0], {})[row["side"]] = row
    return found


def speeds(results: Results, group: str, dtype: str) -> dict[str, float]:
    """Speed relative to PyTorch by case."""
    return {
        sides[OURS]["case"]: sides[EAGER]["us"] / sides[OURS]["us"]
        for sides in _sides(results, group, dtype).values()
        if {OURS, EAGER} <= set(sides) and not sides[OURS]["variant"]
    }


def ratios(results: Results, group: str, *, cases: tuple[str, ...] = ()) -> str:
    """A sentence on speeds relative to PyTorch, by type of numbers.

    Args:
        cases: those that count; all of the group if empty.
    """
    parts: list[str] = []
    for dtype in DTYPES:
        known = speeds(results, group, dtype)
        found = [speed for case, speed in known.items() if not cases or case in cases]
        if len(found) == 1:
            parts.append(f"{dtype} {found[0]:.2f}x")
        elif found:
            mean = geometric_mean(found)
            parts.append(f"{dtype} {mean:.2f}x ({min(found):.2f} to {max(found):.2f})")
    what = " and ".join(cases) or group
    return f"On {results.card}, {what} against PyTorch: {', '.join(parts)}. "


def times(results: Results, group: str, case: str) -> str:
    """A sentence on the times of a case and of PyTorch."""
    parts = (
        f"{row['us']:.1f} us by {'tcopt' if side == OURS else 'PyTorch'}"
        for key, sides in _sides(results, group).items()
        for side, row in sides.items()
        if row["case"] == case and not row["variant"] and side in (OURS, EAGER)
    )
    return f"On {results.card}: {', '.join(parts)}. "


def gains(results: Results, group: str, variant: str) -> str:
    """A sentence on the gain of a decision in each case of a group."""
    parts = (f"{case} {gain:.2f}x" for case, gain in each_gain(results, group, variant))
    return f"On {results.card}: {', '.join(parts)}. "


def each_gain(results: Results, group: str, variant: str) -> Iterator[tuple[str, float]]:
    """Cases of a group, and how much faster a decision makes them."""
    sides = _sides(results, group)
    for key, changed in sides.items():
        if not key.endswith(f"/{variant}"):
            continue
        base = sides.get(key.removesuffix(variant), {})
        if OURS in base and OURS in changed:
            yield base[OURS]["case"], changed[OURS]["us"] / base[OURS]["us"]


def narrow_gains(results: Results) -> str:
    """A sentence on networks in int8 against those in f32."""
    plain = {
        (row["case"], row["batch"]): row["us"]
        for group in ("networks", "wide")
        for sides in _sides(results, group, "f32").values()
        if (row := sides.get(OURS))
    }
    parts = (
        f"{row['case']} at batch {row['batch']} {plain[row['case'], row['batch']] / row['us']:.2f}x"
        for sides in _sides(results, "quantised").values()
        if (row := sides.get(OURS)) and (row["case"], row["batch"]) in plain
    )
    return f"On {results.card}, int8 against our f32: {', '.join(parts)}. "
