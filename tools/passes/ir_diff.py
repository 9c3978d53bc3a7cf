"""Structural diff of two states of a module: ops that were added, removed, moved or changed.

Text diffs of IR are dominated by renumbered values. Here each function becomes a list of entries,
one per op, which identify operands by their producer instead of by number. The lists are aligned by
longest matching runs; the remaining entries are paired into changes and moves, and summarised.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer

from tcopt.support.locations import describe_location

_MAX_LINES = 24
_MAX_ALIGNED = 3000
_MAX_TEXT = 110

# Attributes of no interest to a reader.
_UNSAID = ("operandSegmentSizes", "resultSegmentSizes")
_DEFAULTS = ("fastmath = #arith.fastmath<none>",)


@dataclass(frozen=True)
class PrintedOp:
    """An op: its location, and its text, which does not depend on value numbers."""

    name: str
    text: str
    place: str | None
    depth: int


Snapshot = dict[str, list[PrintedOp]]


def snapshot(module: ModuleOp) -> Snapshot:
    """Return the entries of each top-level function, and of the module under an empty key."""
    found: Snapshot = {}
    for op in module.ops:
        symbol = op.properties.get("sym_name", op.attributes.get("sym_name"))
        if isinstance(symbol, StringAttr):
            key = f"@{symbol.data}"
            while key in found:
                key += "'"
            found[key] = list(_entries(op, 0))
        else:
            found.setdefault("", []).extend(_entries(op, 0))
    return found


def diff(old: Snapshot, new: Snapshot) -> str:
    """Describe the difference, in a few lines per function."""
    lines: list[str] = []
    for name in [*old, *(n for n in new if n not in old)]:
        title = name or "module"
        if name not in new:
            lines.append(f"- {title}: removed ({len(old[name])} ops)")
        elif name not in old:
            lines.append(f"+ {title}: added ({_census(new[name])})")
        else:
            changes = _diff_function(old[name], new[name])
            if changes:
                before, after = len(old[name]), len(new[name])
                lines.append(f"  {title}: {before} -> {after} ops")
                lines.extend(_capped(changes))
    return "\n".join(lines) if lines else "  no change"


def _entries(op: Operation, depth: int) -> Iterator[PrintedOp]:
    attributes = sorted({**op.properties, **op.attributes}.items())
    said = [f"{key} = {_short(value)}" for key, value in attributes if key not in _UNSAID]
    attribute_text = ", ".join(text for text in said if text not in _DEFAULTS)
    types = ", ".join(_short(value.type) for value in op.results)
    operands = ", ".join(_describe(value) for value in op.operands)
    text = f"{op.name}({operands})"
    if attribute_text:
        text += f" {{{attribute_text}}}"
    if types:
        text += f" : {types}"
    place = describe_location(op.location)
    yield PrintedOp(op.name, text, place, depth)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _entries(inner, depth + 1)


def _describe(value: SSAValue) -> str:
    if value.name_hint:
        return f"%{value.name_hint}"
    owner = value.owner
    return f"<{owner.name}>" if isinstance(owner, Operation) else "<argument>"


def _short(attribute: Attribute) -> str:
    stream = StringIO()
    Printer(stream).print_attribute(attribute)
    text = stream.getvalue()
    return text if len(text) <= 48 else text[:45] + "..."


def _diff_function(old: Sequence[PrintedOp], new: Sequence[PrintedOp]) -> list[str]:
    removed, added = _unmatched(old, new)
    lines: list[str] = []
    moved = Counter(e.text for e in removed) & Counter(e.text for e in added)
    removed, removed_moves = _take(removed, moved)
    added, _ = _take(added, moved)
    changed, removed, added = _pair_changes(removed, added)
    lines.extend(f"  ~ {_fit(a.text)}{_at(a)}\n    => {_fit(b.text)}" for a, b in changed)
    lines.extend(_summary("-", removed))
    lines.extend(_summary("+", added))
    if removed_moves:
        lines.append(f"  > {_census(removed_moves)} moved")
    return lines


def _unmatched(
    old: Sequence[PrintedOp], new: Sequence[PrintedOp]
) -> tuple[list[PrintedOp], list[PrintedOp]]:
    """Return the entries of either side that have no partner in order."""
    start = 0
    while start < min(len(old), len(new)) and old[start].text == new[start].text:
        start += 1
    end = 0
    limit = min(len(old), len(new)) - start
    while end < limit and old[-1 - end].text == new[-1 - end].text:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) * len(new) > _MAX_ALIGNED**2:
        # Too long to align: compare as multisets, which hides moves.
        common = Counter(e.text for e in old) & Counter(e.text for e in new)
        return _take(old, common)[0], _take(new, common)[0]
    matcher = difflib.SequenceMatcher(None, [e.text for e in old], [e.text for e in new], False)
    removed: list[PrintedOp] = []
    added: list[PrintedOp] = []
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag != "equal":
            removed.extend(old[i:j])
            added.extend(new[k:m])
    return removed, added


def _take(
    entries: Sequence[PrintedOp], counts: Counter[str]
) -> tuple[list[PrintedOp], list[PrintedOp]]:
    """Split entries into those beyond `counts` and those within."""
    left = Counter(counts)
    outside: list[PrintedOp] = []
    inside: list[PrintedOp] = []
    for entry in entries:
        if left[entry.text] > 0:
            left[entry.text] -= 1
            inside.append(entry)
        else:
            outside.append(entry)
    return outside, inside


def _pair_changes(
    removed: Sequence[PrintedOp], added: Sequence[PrintedOp]
) -> tuple[list[tuple[PrintedOp, PrintedOp]], list[PrintedOp], list[PrintedOp]]:
    """Pair a removed with an added op of equal name and location as one changed op."""
    waiting: defaultdict[tuple[str, str | None], list[PrintedOp]] = defaultdict(list)
    for entry in added:
        waiting[entry.name, entry.place].append(entry)
    pairs: list[tuple[PrintedOp, PrintedOp]] = []
    rest: list[PrintedOp] = []
    for entry in removed:
        partners = waiting[entry.name, entry.place]
        if partners:
            pairs.append((entry, partners.pop(0)))
        else:
            rest.append(entry)
    paired = {id(b) for _, b in pairs}
    return pairs, rest, [e for e in added if id(e) not in paired]


def _summary(sign: str, entries: Sequence[PrintedOp]) -> Iterator[str]:
    """Yield a line per op if there are few, otherwise a line per kind of op."""
    if len(entries) <= _MAX_LINES // 2:
        yield from (f"  {sign} {'  ' * e.depth}{_fit(e.text)}{_at(e)}" for e in entries)
        return
    groups: dict[str, list[PrintedOp]] = {}
    for entry in entries:
        groups.setdefault(entry.name, []).append(entry)
    for name, members in groups.items():
        places = list(dict.fromkeys(e.place for e in members if e.place))
        more = f" and {len(places) - 2} more" if len(places) > 2 else ""
        where = f"  at {', '.join(places[:2])}{more}" if places else ""
        yield f"  {sign} {len(members)} x {name}{where}"


def _census(entries: Sequence[PrintedOp]) -> str:
    counts = Counter(e.name for e in entries).most_common(4)
    more = len({e.name for e in entries}) - len(counts)
    text = ", ".join(f"{count} {name}" for name, count in counts)
    return text + (f" and {more} other kinds" if more > 0 else "")


def _capped(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LINES:
        return lines
    return [*lines[:_MAX_LINES], f"  ... {len(lines) - _MAX_LINES} more"]


def _fit(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _at(entry: PrintedOp) -> str:
    return f"  at {entry.place}" if entry.place else ""
