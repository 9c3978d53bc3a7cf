"""Mutate the texts of all lit tests; find tracebacks, hangs and texts that do not round-trip.

    python tests/fuzz/run.py --mutants 40000 --seed 1 --jobs 2

Each mutant is parsed, verified, printed, parsed again and compiled by the passes to LLVM IR.
Findings are printed by kind of failure, with a reduced text; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.mutants import cases, mutant
from fuzz.reduce import reduce
from fuzz.text_checks import Finding, check

_SECONDS = 20.0
"""Time limit for a text, generous enough for a busy machine."""
_MEMORY_BYTES = 6 << 30
_CHUNK = 50


@dataclass(frozen=True)
class Failure:
    """The number of a failing mutant, and its finding."""

    number: int
    finding: Finding


@dataclass
class Campaign:
    """A run over some mutants.

    Attributes:
        found: the failures, by signature.
    """

    seed: int
    target: str
    jobs: int
    found: dict[str, list[Failure]] = field(default_factory=dict[str, list[Failure]])
    done: int = 0
    started: float = field(default_factory=time.monotonic)

    def run(self, numbers: range) -> None:
        """Check mutants in worker processes; a mutant that kills its process is found too."""
        cases()
        rest = [numbers[n : n + _CHUNK] for n in range(0, len(numbers), _CHUNK)]
        while rest:
            broken = self._run_chunks(rest)
            if not broken:
                break
            if len(rest[0]) == 1:
                (number,) = rest.pop(0)
                self._add(Failure(number, Finding("the process ended", f"mutant {number}")))
            else:
                # Mutants that were in progress when it ended are run again, one by one.
                head = rest[: 2 * self.jobs]
                rest[: len(head)] = [range(n, n + 1) for chunk in head for n in chunk]

    def _run_chunks(self, rest: list[range]) -> bool:
        """Whether a process ended. Finished chunks are removed from the list."""
        context = multiprocessing.get_context("fork")
        jobs = 1 if len(rest[0]) == 1 else self.jobs
        with ProcessPoolExecutor(jobs, context, _limit_memory) as pool:
            waiting = {pool.submit(_run_chunk, self.seed, c, self.target): c for c in rest}
            try:
                for future in as_completed(waiting):
                    for failure in future.result():
                        self._add(failure)
                    rest.remove(waiting[future])
                    self.done += len(waiting[future])
                    self._show_progress()
            except BrokenProcessPool:
                return True
        return False

    def _add(self, failure: Failure) -> None:
        signature = failure.finding.signature
        if signature not in self.found:
            print(f"\n{signature}: mutant {failure.number}", file=sys.stderr, flush=True)
        self.found.setdefault(signature, []).append(failure)

    def _show_progress(self) -> None:
        rate = self.done / (time.monotonic() - self.started)
        line = f"\r{self.done} mutants, {rate:.0f} a second, {len(self.found)} kinds of failure"
        print(line, end="", file=sys.stderr, flush=True)

    def report(self, seconds: float) -> None:
        """Print each kind of failure with a reduced text, the most frequent first."""
        print(file=sys.stderr)
        for signature, failures in sorted(self.found.items(), key=lambda item: -len(item[1])):
            first = min(failures, key=lambda f: (len(mutant(self.seed, f.number)), f.number))
            print(f"=== {signature}\n    {len(failures)} mutants, such as {first.number}")
            print(self._smaller(first, seconds).rstrip())
            print("--- " + first.finding.detail.rstrip().replace("\n", "\n    ") + "\n", flush=True)

    def _smaller(self, failure: Failure, seconds: float) -> str:
        signature = failure.finding.signature

        def fails(text: str) -> bool:
            finding = check(text, _SECONDS, self.target)
            return finding is not None and finding.signature == signature

        text = mutant(self.seed, failure.number)
        # A text that kills its process would kill this one too.
        return text if signature == "the process ended" else reduce(text, fails, seconds)


def _run_chunk(seed: int, numbers: range, target: str) -> list[Failure]:
    found = ((n, check(mutant(seed, n), _SECONDS, target)) for n in numbers)
    return [Failure(n, finding) for n, finding in found if finding is not None]


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--mutants", type=int, default=20_000, help="how many (20000)")
    add("--first", type=int, default=0, help="the number of the first one (0)")
    add("--seed", type=int, default=0, help="seed of the mutations (0)")
    add("--jobs", type=int, default=2, help="processes (2)")
    add("--target", default="cpu:haswell", help="target of the pipeline (cpu:haswell)")
    add("--reduce", type=float, default=20, metavar="SECONDS", help="time for each kind (20)")
    args = parser.parse_args()
    campaign = Campaign(args.seed, args.target, args.jobs)
    campaign.run(range(args.first, args.first + args.mutants))
    campaign.report(args.reduce)
    total = sum(map(len, campaign.found.values()))
    print(f"{args.mutants} mutants, {total} failures of {len(campaign.found)} kinds")
    return 1 if campaign.found else 0


if __name__ == "__main__":
    sys.exit(main())
