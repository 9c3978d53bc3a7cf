"""Plant every fault, and write the table of `docs/exec_check.md`: `make faults`.

`--network small` takes those of one network alone; `--write` puts the table into the page. Exits 1
if a fault is not caught, is named wrongly or takes more than twice the time of a clean run.
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
BEGIN, END = "<!-- faults begin -->", "<!-- faults end -->"
LONGEST = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", help="plant the faults of this network alone")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    args = parser.parse_args()
    chosen = [fault for fault in FAULTS if args.network in (None, fault.network)]
    rows = [(fault, _plant(fault)) for fault in chosen]
    table = _table(rows)
    if args.write:
        text = PAGE.read_text(encoding="utf-8")
        head, rest = text.split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{table}{END}{rest.split(END)[1]}", encoding="utf-8")
    print(table, end="")
    good = sum(_is_good(fault, outcome) for fault, outcome in rows)
    print(f"{good} of {len(rows)} faults caught in the right pass, in time")
    sources = [] if args.network else SOURCE_FAULTS
    named = sum(_is_named(fault) for fault in sources)
    print(f"{named} of {len(sources)} faults in the source caught and attributed")
    return 0 if (good, named) == (len(rows), len(sources)) else 1


def _is_named(fault: SourceFault) -> bool:
    """Whether the clean program passes, and the fault's message names the culprit."""
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


if __name__ == "__main__":
    sys.exit(main())
