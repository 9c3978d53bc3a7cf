"""Plant every fault, and write the tables of `docs/exec_check.md`: `make faults`.

`--network small` plants only the faults of one network, `--sources` those in the compiler's source;
`--write` updates the tables in the page. Exits 1 if a fault is not caught, is attributed wrongly or
takes more than twice the time of a clean run.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.planted import FAULTS, Fault
from faults.planted_sources import SOURCE_FAULTS
from faults.runs import Outcome, checked
from faults.sources import SourceFault, message_of, planted

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exec_check.md"
PASSES, SOURCES = "faults", "source faults"
"""Tables of the page, between comments `<!-- faults begin -->` and `<!-- faults end -->`."""
LONGEST = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", help="plant the faults of this network alone")
    parser.add_argument("--sources", action="store_true", help="plant those in the source alone")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    args = parser.parse_args()
    is_all = args.network is None and not args.sources
    chosen = [fault for fault in FAULTS if is_all or fault.network == args.network]
    rows = [(fault, _plant(fault)) for fault in chosen]
    sources = [(fault, _is_named(fault)) for fault in SOURCE_FAULTS if is_all or args.sources]
    for title, table in ((PASSES, _table(rows)), (SOURCES, _source_table(sources))):
        print(table if table.count("\n") > 2 else "", end="")
        if args.write and (is_all or args.sources == (title == SOURCES)):
            _write(title, table)
    good = sum(_is_good(fault, outcome) for fault, outcome in rows)
    print(f"{good} of {len(rows)} faults caught in the right pass, in time")
    named = sum(is_named for _, is_named in sources)
    print(f"{named} of {len(sources)} faults in the source caught and attributed")
    return 0 if (good, named) == (len(rows), len(sources)) else 1


def _write(title: str, table: str) -> None:
    """Replace a table of the page."""
    begin, end = f"<!-- {title} begin -->", f"<!-- {title} end -->"
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(begin)
    PAGE.write_text(f"{head}{begin}\n{table}{end}{rest.split(end)[1]}", encoding="utf-8")


def _is_named(fault: SourceFault) -> bool:
    """Whether the clean program passes and the fault's message names the culprit."""
    clean = message_of(fault)
    with planted(fault):
        message = message_of(fault)
    is_named = not clean and fault.culprit in message
    if not is_named:
        print(f"{fault.title} ({fault.culprit}): {clean or message or 'not caught'}")
    return is_named


def _plant(fault: Fault) -> Outcome:
    with contextlib.redirect_stderr(io.StringIO()):
        network = checked(fault.network)
        outcome = network.plant(fault)
    if not _is_good(fault, outcome):
        print(
            f"{fault.title} ({fault.culprit}): {outcome.message or 'not caught'}", file=sys.stderr
        )
    return outcome


def _is_good(fault: Fault, outcome: Outcome) -> bool:
    return outcome.names(fault.culprit) and outcome.share <= LONGEST


def _table(rows: list[tuple[Fault, Outcome]]) -> str:
    lines = [
        "| fault | level | pass | network | caught | named | time, of a clean run's |",
        "|---|---|---|---|---|---|---|",
    ]
    for fault, outcome in rows:
        caught = "yes" if outcome.message else "no"
        named = "yes" if outcome.names(fault.culprit) else "no"
        lines.append(
            f"| {fault.title} | {fault.level} | `{fault.culprit}` | {fault.network} | {caught} | "
            f"{named} | {outcome.seconds:.1f} s, {outcome.share:.2f} |"
        )
    return "\n".join(lines) + "\n"


def _source_table(rows: list[tuple[SourceFault, bool]]) -> str:
    lines = ["| fault | level | function | named | caught and named |", "|---|---|---|---|---|"]
    for fault, is_named in rows:
        module = fault.module.__name__.rpartition(".")[2]
        lines.append(
            f"| {fault.title} | {fault.level} | `{module}.{fault.function}` | {fault.culprit} | "
            f"{'yes' if is_named else 'no'} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
