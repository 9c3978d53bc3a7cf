"""ResNet-18's convolutions on the accelerator: cycles, what they could be, and the paper's.

    python benchmarks/vdla.py --machine vdla --plot roofline.png

For each layer of the TVM paper's table 2 (C2 to C12) one row:

- `ideal`: cycles of its products, out^2 * outputs * inputs * kernel^2 / 256 for a unit of 16 x 16;
- `roof`: ideal / max(ideal, counted bytes / bytes of the port a cycle), where bytes are counted as
  the paper does: data and weights of a byte, sums of four, each once;
- `serial`: cycles of the compiled stream where units wait for each other as VTA's rule has it, one
  after the other in one virtual thread; `hidden`: with tokens where entries are shared;
- of `hidden`: utilisation (ideal / cycles), its share of the roof, what it is bound by,
  instructions, tokens beside those of VTA's rule, and milliseconds of the proof;
- the paper's utilisation without and with latency hiding, read off its figure 10.

All cycles are from one simulator (docs/vdla.md).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, log
from pathlib import Path

from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from table2 import LAYERS, Layer
from tcopt.backends.vdla.machines import named_machine
from tcopt.backends.vdla.report import ProgramReport, attainable_cycles, report_of
from tcopt.backends.vdla.simulator.check import check_stream
from tcopt.backends.vdla.source import programs_of, stream_for
from tcopt.compiler import Phase, lower
from tcopt.dialects.target import TARGET_ATTRIBUTE, VdlaTargetAttr
from tcopt.dialects.vdla import ProgramOp
from tcopt.passes.vdla.insert_tokens import InsertTokensPass, plan_program
from tcopt.support.parsing import LocatedParser
from tcopt.tools.command_line.text_tables import render
from tcopt.tools.passes.driver import new_context

TO_PROGRAM = (
    "lower-graph-to-te,te-inline,split-axes,merge-axes,lower-te-to-loop,schedule,apply-schedule,"
    "compact-buffers,lower-blocks,inject-virtual-threads,place-sram,lower-loop-to-vdla"
)


@dataclass(frozen=True)
class Result:
    """What was found of a layer.

    Attributes:
        tokens, other_tokens: by regions, and by VTA's rule on the same stream.
        proof: seconds.
    """

    layer: Layer
    ideal: int
    roof: float
    serial: ProgramReport
    hidden: ProgramReport
    tokens: int
    other_tokens: int
    proof: float

    @property
    def utilisation(self) -> float:
        return self.ideal / self.hidden.cycles


def program_of(layer: Layer, target: VdlaTargetAttr) -> ProgramOp:
    """The program of a layer, without tokens, as the compiler makes it."""
    inner, lanes = target.block_in.data, target.block_out.data
    blocks_in, blocks_out = ceil(layer.inputs / inner), ceil(layer.outputs / lanes)
    x = f"1x{blocks_in}x{layer.size}x{layer.size}x{inner}"
    w = f"{blocks_out}x{blocks_in}x{layer.kernel}x{layer.kernel}x1x{lanes}x{inner}"
    y = f"1x{blocks_out}x{layer.out}x{layer.out}x{lanes}"
    text = f"""func.func @main(%x: tensor<{x}xi8>, %w: tensor<{w}xi8>) -> tensor<{y}xi32> {{
      %0 = graph.blocked_conv %x, %w {{strides = {[layer.stride] * 2}, pads = {[layer.pad] * 4},
        result_element = i32}} : tensor<{y}xi32> loc("{layer.name}")
      func.return %0 : tensor<{y}xi32>
    }}"""
    module = LocatedParser(new_context(), text, layer.name).parse_module()
    module.attributes[TARGET_ATTRIBUTE] = target
    lower(module, [Phase("program", TO_PROGRAM)])
    (program,) = programs_of(module)
    return program


def measure(layer: Layer, target: VdlaTargetAttr) -> Result:
    """Compile a layer and simulate it."""
    program = program_of(layer, target)
    module = program.parent_op()
    assert isinstance(module, ModuleOp)
    reports: dict[str, ProgramReport] = {}
    counts: dict[str, int] = {}
    proof = 0.0
    for rule in ("neighbours", "regions"):
        counts[rule] = plan_program(program, rule).count
        InsertTokensPass(rule=rule).apply(new_context(), module)
        stream = stream_for(program, target)
        start = time.perf_counter()
        check_stream(stream, target)
        proof = time.perf_counter() - start
        reports[rule] = report_of(stream, target)
    unit = target.rows.data * target.block_in.data * target.block_out.data
    ideal = ceil(layer.products / unit)
    roof = ideal / attainable_cycles(ideal, layer.counted_bytes, target)
    serial, hidden = reports["neighbours"], reports["regions"]
    tokens, other = counts["regions"], counts["neighbours"]
    return Result(layer, ideal, roof, serial, hidden, tokens, other, proof)


def table_of(results: Sequence[Result]) -> str:
    """The results as text."""
    table = Table()
    names = "layer,ideal,roof,serial,hidden,utilisation,of the roof,paper,bound by,instructions,"
    for name in (names + "tokens,VTA's tokens,proof ms").split(","):
        table.add_column(name, justify="left" if name in ("layer", "bound by") else "right")
    for each in results:
        before, after = each.layer.paper
        count = len(each.hidden.tasks)
        table.add_row(
            each.layer.name,
            f"{each.ideal:,}",
            f"{each.roof:.3f}",
            f"{each.serial.cycles:,}",
            f"{each.hidden.cycles:,}",
            f"{each.utilisation:.3f}",
            f"{each.utilisation / each.roof:.3f}",
            f"{before:.3f} -> {after:.3f}",
            each.hidden.bound_by,
            str(count),
            str(each.tokens),
            str(each.other_tokens),
            f"{1e3 * each.proof:.0f}",
        )
    shares = [log(each.utilisation / each.roof) for each in results]
    gains = [log(each.serial.cycles / each.hidden.cycles) for each in results]
    mean = exp(sum(shares) / len(shares))
    return (
        render(table)
        + f"\ngeometric means: {mean:.3f} of the roof, {exp(sum(gains) / len(gains)):.2f} times "
        "as fast as serial"
    )


def plot(results: Sequence[Result], target: VdlaTargetAttr, path: Path) -> None:
    """Draw a roofline in the form of the paper's figure 10, with the paper's points."""
    try:
        import matplotlib
    except ImportError:
        sys.exit("a plot needs matplotlib, which the extra `bench` installs")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    unit = 2 * target.rows.data * target.block_in.data * target.block_out.data
    port = target.port_bytes.data / target.port_cycles.data
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    points = [each.layer.intensity for each in results]
    ridge = unit / port
    ends = [min(*points, ridge) / 1.3, ridge, max(*points, ridge) * 1.3]
    axes.plot(ends, [min(unit, port * at) for at in ends], color="black", label="roofline")
    for label, colour, marker, shares in (
        ("paper, serial", "#c9c9c9", "s", [each.layer.paper[0] for each in results]),
        ("paper, latency hidden", "#7d7d7d", "s", [each.layer.paper[1] for each in results]),
        ("serial", "#e08a2c", "o", [each.ideal / each.serial.cycles for each in results]),
        ("latency hidden", "#3b6fb6", "o", [each.utilisation for each in results]),
    ):
        axes.scatter(points, [unit * share for share in shares], 24, colour, marker, label=label)
    for each, at in zip(results, points, strict=True):
        axes.annotate(each.layer.name, (at, unit * each.utilisation), fontsize=7)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("operations a byte, counted as the paper does")
    axes.set_ylabel("operations a cycle")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(description="the accelerator on ResNet-18's convolutions")
    parser.add_argument("--machine", default="vdla", help="a machine's name (vdla)")
    parser.add_argument("--latency", type=int, help="another latency of the port")
    parser.add_argument("--layers", nargs="+", help="of these alone, by name")
    parser.add_argument("--plot", type=Path, help="write a roofline plot")
    args = parser.parse_args(argv)
    target = named_machine(args.machine)
    if args.latency is not None:
        target = VdlaTargetAttr.of_facts({**target.facts(), "latency": args.latency})
    wanted = [each for each in LAYERS if not args.layers or each.name in args.layers]
    results = [measure(layer, target) for layer in wanted]
    print(table_of(results))
    if args.plot:
        plot(results, target, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
