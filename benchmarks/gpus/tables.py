"""Rows of `gpu.py` as a page of Markdown: tables by group, and launches far from limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpus.cases import GROUPS
from gpus.roofs import GROUP
from gpus.rows import MACHINE, Row
from gpus.sides import OURS, PEERS
from gpus.variants import VARIANTS
from md_tables import markdown
from tcopt.tools.benchmarking.report import geometric_mean

Case = tuple[str, str, str, str, str]
"""Group, name, type of numbers, batch and variant."""

LAUNCHES_SHOWN = 30


class Roofs:
    """Limits of the device, as far as they were measured.

    Attributes:
        copy: bytes a microsecond; None if unknown.
        launch: microseconds of a launch in a graph.
    """

    def __init__(self, rows: Mapping[str, Row]):
        def value(name: str, key: str) -> float | None:
            return rows.get(f"{GROUP}/{name}", {}).get(key)

        copy = value("copy", "gbps")
        self.copy = None if copy is None else 1e3 * copy
        self.launch = value("launch in a graph", "us") or 0.0
        self._tflops = {
            "f32": value("fma f32", "tflops"),
            **{name: value(f"cublas {name}", "tflops") for name in ("f16", "bf16", "int8")},
        }

    def bound(self, operations: float, moved: float, launches: int, dtype: str) -> float | None:
        """Microseconds at least: launches, and operations or bytes.

        Operations of a type without a measured roof do not count. None without the roof of copies.
        """
        if self.copy is None:
            return None
        rate = self._tflops.get(dtype)
        compute = 0.0 if rate is None else operations / rate / 1e6
        return launches * self.launch + max(compute, moved / self.copy)


def page(rows: Mapping[str, Row]) -> str:
    """Everything that the rows say."""
    roofs, cases = Roofs(rows), _cases(rows)
    parts = ["# Measured on a GPU", _machine(rows), _roof_table(rows)]
    for group, (title, answers) in GROUPS.items():
        found = {case: sides for case, sides in cases.items() if case[0] == group}
        if found:
            parts.append(f"## {title}" + (f"\n\nAnswers: {answers}." if answers else ""))
            parts += _group(found, roofs)
    parts += _launches(cases, roofs)
    parts += _errors(rows)
    return "\n\n".join(part for part in parts if part) + "\n"


def _cases(rows: Mapping[str, Row]) -> dict[Case, dict[str, Row]]:
    found: dict[Case, dict[str, Row]] = {}
    for row in rows.values():
        if "side" in row:
            names = ("group", "case", "dtype", "batch", "variant")
            case: Any = tuple(str(row[name]) for name in names)
            found.setdefault(case, {})[row["side"]] = row
    return found


def _machine(rows: Mapping[str, Row]) -> str:
    facts = rows.get(MACHINE)
    if facts is None:
        return ""
    peers = ", ".join(f"{name} {version}" for name, version in facts.get("peers", {}).items())
    return (
        f"{facts['device']}, compiled for {facts['target']}; {facts['cpu']}, {facts['cores']}"
        f" cores; {peers or 'no peers'}. Times are microseconds of a run in the device's memory,"
        " medians of rounds. *Bound* is the time that the measured roofs allow for the operations"
        " and bytes of a case, as a part of ours. A ratio is the time of a peer over ours: above 1,"
        f" ours is faster. {facts.get('note', '')}"
    ).rstrip()


def _roof_table(rows: Mapping[str, Row]) -> str:
    lines = ["## Roofs", "", "| | us | |", "|---|---|---|"]
    for row in rows.values():
        if row.get("group") != GROUP or "us" not in row:
            continue
        rate = f"{row['tflops']:.1f} TFLOP/s" if "tflops" in row else ""
        rate = f"{row['gbps']:.0f} GB/s" if "gbps" in row else rate
        lines.append(f"| {row['case']} | {row['us']:.2f} | {rate} |")
    return "\n".join(lines) if len(lines) > 4 else ""


def _group(cases: Mapping[Case, Mapping[str, Row]], roofs: Roofs) -> Iterator[str]:
    plain = {case: sides for case, sides in cases.items() if not case[4]}
    peers = [name for name in PEERS if any(name in sides for sides in plain.values())]
    head = ["case", "type", "batch", "ours us"]
    head += [text for name in peers for text in (f"{name} us", "ratio")]
    table: list[Sequence[str]] = []
    ratios: dict[tuple[str, str], list[float]] = {}
    for case, sides in plain.items():
        ours = sides.get(OURS, {})
        row = [case[1], case[2], case[3], _time(ours)]
        for name in peers:
            theirs = sides.get(name, {})
            ratio = theirs["us"] / ours["us"] if "us" in theirs and "us" in ours else None
            if ratio is not None:
                ratios.setdefault((name, case[2]), []).append(ratio)
            row += [_time(theirs) if theirs else "", "" if ratio is None else f"{ratio:.2f}"]
        bound = _bound(ours, case[2], roofs)
        row.append("" if bound is None else f"{bound / ours['us']:.0%}")
        row.append(f"{ours['difference']:.0e}" if "difference" in ours else "")
        table.append(row)
    yield markdown([*head, "bound", "difference"], table)
    if ratios:
        means = (
            f"{dtype} against {name}: {geometric_mean(found):.2f} ({len(found)} cases)"
            for (name, dtype), found in ratios.items()
        )
        yield "Geometric means of the ratios: " + "; ".join(means) + "."
    changed = [_changed(case, sides, cases) for case, sides in cases.items() if case[4]]
    if changed:
        yield markdown(["case", "type", "change", "with us", "without us", "gain"], changed)


def _changed(
    case: Case, sides: Mapping[str, Row], cases: Mapping[Case, Mapping[str, Row]]
) -> list[str]:
    ours = sides.get(OURS, {})
    base = cases.get((*case[:4], ""), {}).get(OURS, {})
    both = "us" in ours and "us" in base
    gain = f"{ours['us'] / base['us']:.2f}" if both else ""
    return [case[1], case[2], VARIANTS[case[4]].title, _time(base), _time(ours), gain]


def _time(row: Mapping[str, Any]) -> str:
    if "error" in row:
        return "error"
    if "us" not in row:
        return ""
    return f"{row['us']:.1f}{' **wrong**' if row.get('wrong') else ''}"


def _bound(row: Mapping[str, Any], dtype: str, roofs: Roofs) -> float | None:
    if "us" not in row or "flops" not in row:
        return None
    return roofs.bound(row["flops"], row["bytes"], 1, dtype)


def _launches(cases: Mapping[Case, Mapping[str, Row]], roofs: Roofs) -> Iterator[str]:
    """The launches that lose most time against their bounds, of networks at a batch of one."""
    lost: list[tuple[float, list[str]]] = []
    for case, sides in cases.items():
        if case[0] != "networks":
            continue
        for launch in sides.get(OURS, {}).get("launches", ()):
            bound = roofs.bound(launch["work"], launch["bytes"], 1, case[2])
            if bound is not None:
                times = [f"{launch['us']:.1f}", f"{bound:.1f}", f"{bound / launch['us']:.0%}"]
                names = [launch[name] for name in ("kernel", "rule", "nodes", "slow")]
                lost.append((launch["us"] - bound, [case[1], case[2], *times, *names]))
    lost.sort(key=lambda each: -each[0])
    if lost:
        yield "## Launches far from their bounds"
        yield (
            "Of the networks at a batch of one, by the microseconds above the bound; the events"
            " around a launch take a microsecond or two of it. Calls of several launches count no"
            " operations. *Estimated* is what the schedule's cost model says of a slow one."
        )
        head = [
            "network",
            "type",
            "us",
            "bound us",
            "of it",
            "kernel",
            "rule",
            "nodes",
            "estimated",
        ]
        yield markdown(head, [row for _, row in lost[:LAUNCHES_SHOWN]])


def _errors(rows: Mapping[str, Row]) -> Iterator[str]:
    failed = [(key, row["error"]) for key, row in rows.items() if "error" in row]
    wrong = [
        (key, f"difference {row['difference']:.1e}")
        for key, row in rows.items()
        if row.get("wrong")
    ]
    unchecked = [(key, row["unchecked"]) for key, row in rows.items() if row.get("unchecked")]
    for title, found in (("Errors", failed), ("Wrong results", wrong), ("Unchecked", unchecked)):
        if found:
            yield f"## {title}"
            yield markdown(["row", ""], found)
