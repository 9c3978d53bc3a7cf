"""Measure layers and whole models against other runtimes, in interleaved runs.

    python benchmarks/run.py                               # everything, 1 and 2 threads
    python benchmarks/run.py --only conv models --filter 'C2$|resnet'
    python benchmarks/run.py --output results.json --resume --chart results.svg

Results are written after each case; `--resume` keeps those that are in the file. The method and the
columns are explained in docs/benchmarking.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from case import Case
from groups import standings
from suites import all_suites
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files.access import write_output
from tcopt.tools.benchmarking.machine import machine_facts
from tcopt.tools.benchmarking.measure import BenchSettings, measure
from tcopt.tools.benchmarking.memory import peak_memory
from tcopt.tools.benchmarking.report import BenchOutcome, comparison_table, outcomes
from tcopt.tools.benchmarking.sides import check_peers, installed_peers
from tcopt.tools.command_line.cli import ArgumentParser, add_accuracy, run_tool
from tcopt.tools.command_line.text_tables import render


def main() -> int:
    """Entry point of the script; returns the exit code."""
    args = _argument_parser().parse_args()
    return run_tool("run.py", lambda: _run(args), show_traceback=args.traceback)


def _argument_parser() -> argparse.ArgumentParser:
    parser = ArgumentParser("run.py", (__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--only", nargs="+", metavar="SUITE", help=f"suites among {', '.join(all_suites())}")
    add("--filter", default="", metavar="REGEX", help="cases whose names match at the start")
    add("--list", action="store_true", help="print the cases and measure nothing")
    add("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (1 2)")
    add("--rounds", type=int, default=10, help="turns of each side (10)")
    add("--peers", nargs="*", metavar="PEER", help="runtimes to compare with (those installed)")
    add("--target", default="cpu", help="what to compile for (cpu)")
    add_accuracy(parser)
    add("--memory", action="store_true", help="peak memory of compiling and running, too")
    add("--output", type=Path, default=Path("results.json"), help="results (results.json)")
    add("--resume", action="store_true", help="keep the cases that the results have")
    add("--chart", type=Path, metavar="FILE.svg", help="draw a chart; .png and .pdf work too")
    add("--page", type=Path, metavar="FILE.md", help="write the results as a page of Markdown")
    add("--compile-times", type=Path, metavar="FILE", help="compile_time.py's results, for --page")
    add("--least", action="store_true", help="judge by least times, not medians: on a busy machine")
    add("--report", action="store_true", help="only show the results there are")
    add("--traceback", action="store_true", help="after an error, print the Python stack")
    return parser


def _run(args: argparse.Namespace) -> int:
    suites = _chosen(args)
    if args.list:
        for suite, cases in suites.items():
            for case in cases:
                print(f"{suite:10} {case.name:24} {case.what}")
        return 0
    results = _load(args.output) if args.resume or args.report else {}
    peers = installed_peers() if args.peers is None else check_peers(args.peers)
    if not args.report:
        settings = BenchSettings(
            args.threads,
            args.rounds,
            peers=peers,
            target=args.target,
            options={"accuracy": args.accuracy},
        )
        results["machine"] = machine_facts()
        results["settings"] = {
            "rounds": args.rounds,
            "peers": peers,
            "target": args.target,
            "accuracy": args.accuracy,
        }
        _measure_all(args, suites, settings, results)
    _show(results, suites, peers, args.least)
    if args.chart:
        from chart import draw

        draw(_all_outcomes(results, suites, args.least), args.chart)
    if args.page:
        from page import write_page

        compiles = json.loads(args.compile_times.read_text()) if args.compile_times else ()
        write_page(args.page, results, suites, compiles)
    return 0


def _chosen(args: argparse.Namespace) -> dict[str, list[Case]]:
    suites = all_suites()
    for name in args.only or ():
        if name not in suites:
            raise InputError(f"there is no suite '{name}'", hint=f"suites are {', '.join(suites)}")
    wanted = {name: suites[name] for name in args.only or suites}
    try:
        pattern = re.compile(args.filter)
    except re.error as error:
        raise InputError(f"--filter '{args.filter}' is not a pattern: {error}") from None
    return {name: [c for c in cases if pattern.match(c.name)] for name, cases in wanted.items()}


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"'{path}' holds no results: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"'{path}' holds no results")
    return found


def _measure_all(
    args: argparse.Namespace,
    suites: dict[str, list[Case]],
    settings: BenchSettings,
    results: dict[str, Any],
) -> None:
    cases = results.setdefault("cases", {})
    todo = [c for each in suites.values() for c in each if c.name not in cases]
    for number, case in enumerate(todo):
        start = time.perf_counter()
        report = _measure(args, case, settings)
        cases[case.name] = report
        write_output(args.output, json.dumps(results, indent=1))
        taken = time.perf_counter() - start
        print(f"{number + 1}/{len(todo)} {case.name}: {_summary(report)} ({taken:.0f} s)")
        sys.stdout.flush()


def _measure(args: argparse.Namespace, case: Case, settings: BenchSettings) -> dict[str, Any]:
    """Return the measurement, or the error that occurred."""
    model = case.build().SerializeToString()
    settings = replace(settings, options={**settings.options, **case.options})
    try:
        report, _, feeds = measure(model, settings)
        if args.memory:
            report["peak_bytes"] = peak_memory(model, args.target, settings.options, feeds)
    except TcoptError as error:
        return {"error": str(error)}
    finally:
        # The tools disable the garbage collector; sessions and programs hold much memory in cycles.
        gc.collect()
    return report


def _summary(report: dict[str, Any]) -> str:
    if "error" in report:
        return report["error"]
    return ", ".join(
        f"{o.threads} threads {o.ours_ms:.3f} ms"
        + (f", {o.ratio:.2f}x {o.best_peer}" if o.ratio else "")
        for o in outcomes(report)
    )


def _all_outcomes(
    results: dict[str, Any], suites: dict[str, list[Case]], least: bool
) -> dict[str, list[BenchOutcome]]:
    return {
        case.name: outcomes(report, least=least)
        for cases in suites.values()
        for case in cases
        if (report := results.get("cases", {}).get(case.name)) and "error" not in report
    }


def _show(
    results: dict[str, Any], suites: dict[str, list[Case]], peers: list[str], least: bool
) -> None:
    found = results.get("cases", {})
    for suite, cases in suites.items():
        reports = {c.name: found[c.name] for c in cases if c.name in found}
        good = {name: report for name, report in reports.items() if "error" not in report}
        if good:
            print(f"\n{suite}\n{comparison_table(good, peers, least=least)}")
        for name, report in reports.items():
            if "error" in report:
                print(f"{name}: {report['error']}")
    table = Table(box=None, pad_edge=False)
    table.add_column("group")
    for heading in ("threads", "geometric mean", "goal", "met", "least", "missing"):
        table.add_column(heading, justify="right")
    for each in standings(_all_outcomes(results, suites, least)):
        worst = min(each.ratios, key=lambda name: each.ratios[name])
        table.add_row(
            each.title,
            str(each.threads),
            f"{each.mean:.2f}",
            f"{each.goal:.2f}",
            "yes" if each.met else "no",
            f"{worst} {each.ratios[worst]:.2f}",
            ", ".join(each.missing) or "-",
        )
    if table.rows:
        print("\n" + render(table))


if __name__ == "__main__":
    sys.exit(main())
