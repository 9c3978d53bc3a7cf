"""The tables of docs/vdla.md match the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tcopt.backends.vdla.fields import LAYOUTS, OPCODES
from tcopt.backends.vdla.machines import MACHINES
from tcopt.dialects.target.vdla import MOST_ENTRIES
from tcopt.dialects.vdla import AluCode, Memory

PAGE = (Path(__file__).parents[2] / "docs" / "vdla.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|")
]


@pytest.mark.parametrize(
    ("name", "layout"),
    [("load, store", "transfer"), ("gemm", "gemm"), ("alu", "alu"), ("micro_op", "micro_op")],
)
def test_fields_are_where_the_page_says(name: str, layout: str) -> None:
    (row,) = [row for row in ROWS if row[0] == name and len(row) == 3]
    shown = {field: (int(at), int(width)) for field, at, width in
             re.findall(r"(\w+) (\d+):(\d+)", " ".join(row[1:]))}  # fmt: skip
    at, wanted = 0, {}
    for field, width in LAYOUTS[layout]:
        if field != "-" and field != "opcode" and not field.startswith(("pop", "push")):
            wanted[field] = (at, width)
        at += width
    assert shown == wanted


def test_numbers_of_names_are_those_of_the_page() -> None:
    text = " ".join(PAGE.split())
    assert f"({', '.join(f'{name} {n}' for n, name in enumerate(OPCODES))})" in text
    assert f"codes are {', '.join(f'{memory} {memory.number}' for memory in Memory)}." in text
    codes = {row[0]: row[1] for row in ROWS}
    assert codes["`min`, `max`"] == f"{AluCode.MIN.number}, {AluCode.MAX.number}"
    for code in (AluCode.ADD, AluCode.SHR, AluCode.MULH):
        assert codes[f"`{code}`"] == str(code.number)


def test_machines_are_those_of_the_page() -> None:
    (head,) = [row for row in ROWS if row[0] == "fact"]
    names = [name.strip("`") for name in head[1:]]
    assert names == list(MACHINES)
    first = next(n for n, row in enumerate(ROWS) if row == head) + 2
    shown = {row[0]: row[1:] for row in ROWS[first : first + 14]}
    facts = [MACHINES[name].facts() for name in names]
    assert shown == {fact: [str(each[fact]) for each in facts] for fact in shown}
    # The difference between them is among the rows.
    assert {fact for fact in facts[0] if len({str(each[fact]) for each in facts}) > 1} <= set(shown)


def test_entries_are_those_of_the_page() -> None:
    sizes = MACHINES["vdla"].entry_bytes
    for memory in Memory:
        (row,) = [row for row in ROWS if row[0] == f"`{memory}`" and len(row) == 6]
        assert row[3] == str(sizes[memory])
        if memory in MOST_ENTRIES:
            assert row[4] == str(MOST_ENTRIES[memory])
