"""Peak fraction that the innermost loops of contractions allow on CPUs other than this machine's.

    python benchmarks/inner_loops.py                                  # layers, every target
    python benchmarks/inner_loops.py --only conv --filter 'C1$' --targets haswell znver4
    python benchmarks/inner_loops.py --only models --filter resnet18 --json loops.json

Each contraction kernel is compiled for a target, the innermost loop with most accumulation is
extracted from the assembly, and llvm-mca computes the cycles of an iteration on that core, with all
data in L1. The peak is llvm-mca's result for independent multiply-adds. In addition, the table has
the bytes that a tile reads in its whole reduction, and the cache level that holds them. The columns
are explained in docs/benchmarking.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path

from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from assembly import Loop, hottest_loops, independent_products
from case import Case
from mca import Mca, find_mca
from suites import all_suites
from tcopt.backends.llvm.emit.names import symbol_of
from tcopt.backends.llvm.machine.machine import assemble_text
from tcopt.backends.llvm.module import target_of
from tcopt.backends.llvm.objects import emit_text
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.passes import run_passes
from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import access_regions, buffer_shape
from tcopt.frontends.onnx.importer import import_first_stage
from tcopt.schedules.analysis.patterns import buffer_bits
from tcopt.schedules.rules.schedule_remarks import SCHEDULED
from tcopt.support.errors import InputError
from tcopt.support.files.access import write_output
from tcopt.support.ir.quick_ir import walk_ops
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.support.remarks import collect_remarks
from tcopt.targets.cpu import MACHINES
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from tcopt.tools.command_line.text_tables import render

TARGETS = ("haswell", "skylake-avx512", "sapphirerapids", "znver4", "znver5", "neoverse-v1")
"""CPUs of `cpu:NAME` for which llvm-mca has a model under the same name."""

LAYERS = ("conv", "depthwise", "matmul")


@dataclass(frozen=True)
class Row:
    """The hottest loop of a kernel on a target.

    Attributes:
        choice: the rule, and the values of its knobs.
        products: multiply-adds of an iteration.
        cycles: cycles of an iteration.
        share: fraction of the core's peak multiply-adds at full vector width.
        loads_each: loads for each multiply-add.
        tile_bytes: bytes that a tile reads in its whole reduction, the largest operand last.
        level: the cache level that holds them: 1, 2, 3, or 4 for memory.
    """

    case: str
    target: str
    kernel: str
    choice: str
    products: int
    cycles: float
    share: float
    loads_each: float
    tile_bytes: tuple[int, ...]
    level: int


def main() -> int:
    """Entry point of the script; returns the exit code."""
    parser = ArgumentParser("inner_loops.py", (__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--only", nargs="+", metavar="SUITE", default=LAYERS, help="suites (the layers)")
    add("--filter", default="", metavar="REGEX", help="cases whose names match at the start")
    add("--targets", nargs="+", metavar="CPU", default=TARGETS, help=f"among {', '.join(TARGETS)}")
    add("--below", type=float, default=1.0, help="show loops with a smaller share of the peak only")
    add("--json", type=Path, help="file for the results")
    add("--traceback", action="store_true", help="after an error, print the Python stack")
    args = parser.parse_args()
    return run_tool("inner_loops.py", lambda: _report(args), show_traceback=args.traceback)


def _report(args: argparse.Namespace) -> int:
    mca = find_mca()
    cases = list(_cases(args))
    rows: list[Row] = []
    for name in args.targets:
        if name not in MACHINES:
            raise InputError(f"there is no CPU '{name}'", hint=f"CPUs are {', '.join(MACHINES)}")
        if mca.estimate(["nop"], MACHINES[name].triple, MACHINES[name].cpu) is None:
            print(f"{mca.command} has no model of {name}: left out")
            continue
        for case in cases:
            rows += rows_of(case, name, mca)
    print(render(_table([row for row in rows if row.share < args.below])))
    if args.json:
        write_output(args.json, json.dumps([asdict(row) for row in rows], indent=1))
    return 0


def _cases(args: argparse.Namespace) -> Iterator[Case]:
    suites = all_suites()
    try:
        pattern = re.compile(args.filter)
    except re.error as error:
        raise InputError(f"--filter '{args.filter}' is not a pattern: {error}") from None
    for name in args.only:
        if name not in suites:
            raise InputError(f"there is no suite '{name}'", hint=f"suites are {', '.join(suites)}")
        yield from (case for case in suites[name] if pattern.match(case.name))


def rows_of(case: Case, name: str, mca: Mca) -> list[Row]:
    """Return a row for each kernel of a case that has a multiply-add loop."""
    accuracy = {k: v for k, v in case.options.items() if k == "accuracy"}
    options = CompileOptions(target=f"cpu:{name}", **accuracy)
    module = import_first_stage(case.build(), options)
    choices: dict[str, str] = {}
    tiles: dict[str, tuple[int, ...]] = {}
    for phase in options.phases:
        with collect_remarks() as remarks:
            run_passes(module, phase.passes)
        if phase.name == "schedule":
            tiles = tile_bytes(module)
            for remark in remarks:
                if remark.message.startswith(SCHEDULED):
                    knobs = remark.message.removeprefix(SCHEDULED).strip(", ")
                    choices[remark.subject.removeprefix("@")] = f"{remark.by}: {knobs}"
    target = target_of(module)
    found = hottest_loops(assemble_text(emit_text(module, target), target))
    kernels = {symbol_of(kernel): kernel for kernel in choices}
    return [
        _row(case.name, name, kernels[symbol], choices[kernels[symbol]], each, tiles, target, mca)
        for symbol, each in found.items()
        if symbol in kernels
    ]


def _row(
    case: str,
    name: str,
    kernel: str,
    choice: str,
    each: Loop,
    tiles: Mapping[str, tuple[int, ...]],
    target: CpuTarget,
    mca: Mca,
) -> Row:
    estimate = mca.estimate(each.lines, target.triple, target.cpu)
    peak = independent_products(each.commonest, target.registers)
    best = mca.estimate(peak, target.triple, target.cpu)
    assert estimate is not None and best is not None
    a_cycle = len(peak) * target.vector_bits / best.cycles
    sizes = tiles.get(kernel, ())
    return Row(
        case,
        name,
        kernel,
        choice,
        len(each.products),
        estimate.cycles,
        each.product_bits / estimate.cycles / a_cycle,
        estimate.loads / len(each.products),
        sizes,
        cache_level(sum(sizes), target),
    )


def tile_bytes(module: ModuleOp) -> dict[str, tuple[int, ...]]:
    """Return the bytes that a tile of each scheduled kernel reads of its operands, in ascending
    order."""
    found: dict[str, tuple[int, ...]] = {}
    for function in module.ops:
        if isinstance(function, loop.FuncOp):
            roots = [root for op in walk_ops(function) if (root := _reduction_around(op))]
            sizes = [tuple(sorted(_bytes_read(root))) for root in roots]
            if sizes:
                found[function.sym_name.data] = max(sizes, key=sum)
    return found


def _reduction_around(op: object) -> loop.ForOp | None:
    """Return the outermost reduction loop of a block; None if the op is not such a block."""
    if not isinstance(op, loop.BlockOp) or loop.IterKind.REDUCE not in op.iter_kinds:
        return None
    reduced = {
        op.operands_[dim]
        for kind, binding in zip(op.iter_kinds, op.bindings.data.results, strict=True)
        if kind is loop.IterKind.REDUCE
        for dim in binding.used_dims()
    }
    around = [each for each in loop.enclosing_loops(op) if each.induction_variable in reduced]
    return around[-1] if around else None


def _bytes_read(root: loop.ForOp) -> Iterator[int]:
    written = {region.buffer for region in access_regions(root) if region.is_write}
    for region in access_regions(root):
        if region.buffer not in written:
            elements = prod(dim.extent for dim in region.box.dims)
            yield elements * buffer_bits(region.buffer) // prod(buffer_shape(region.buffer)) // 8


def cache_level(size: int, target: CpuTarget) -> int:
    """Return the smallest cache level of a target that a number of bytes fits in."""
    levels = (target.l1, target.l2, target.l3)
    return next((n for n, level in enumerate(levels, 1) if size <= level), len(levels) + 1)


def _table(rows: list[Row]) -> Table:
    table = Table("case", "target", "multiply-adds", "cycles", "of peak", "loads each", "tile KB")
    for title in ("in", "choice"):
        table.add_column(title)
    for row in sorted(rows, key=lambda row: row.share):
        table.add_row(
            row.case,
            row.target,
            str(row.products),
            f"{row.cycles:.1f}",
            f"{row.share:.0%}",
            f"{row.loads_each:.2f}",
            " + ".join(f"{size / 1024:.1f}" for size in row.tile_bytes),
            "memory" if row.level > 3 else f"L{row.level}",
            row.choice,
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
