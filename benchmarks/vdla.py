"""ResNet-18's convolutions on the accelerator: cycles, their bounds, and the paper's.

    python benchmarks/vdla.py --machine vdla [--latency 64] [--check] [--plot roofline.png]

The table has a row for each layer of the TVM paper's table 2 (C2 to C12). All cycles are from one
simulator (docs/vdla.md); programs are compiled. On machines that store bytes, sums get a bias, a
shift and a clamp (`--no-bias` skips the first, as in VTA's measured programs).

- `ideal`: cycles of the products, and of the ALU for each vector of results;
- `bound`: the maximum of `ideal` and the port's cycles to transfer data, weights and results once.
  Without an ALU it is the paper's roof, and the share of it is the paper's utilisation of the roof;
- `serial`: tiles chosen for one slot per buffer, so that loads and computation do not overlap; `one
  slot`: the rule's tiles with one slot; `threads`: two virtual threads with one slot each; `slots`:
  by the rule. In all of them tokens follow from shared entries;
- `searched`: with `--search N`, the fewest simulated cycles of N other choices of the rule's space,
  the best by estimate of a random sample;
- `neighbours`: the rule's stream with tokens by VTA's rule;
- `TVM`: with `--machine pynq`, VTA's stream with TVM's published schedule;
- of `slots`: the share of the bound, what it is bound by, instructions, tokens next to the number
  by VTA's rule, and milliseconds of the proof; the paper's utilisation without and with latency
  hiding, read off its figure 10.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp, log
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from saved import save
from table2 import LAYERS, Layer
from tcopt.backends.accelerator.check import check_program
from tcopt.backends.accelerator.code import code_for
from tcopt.backends.accelerator.report import ProgramReport, report_of
from tcopt.backends.vdla.machines import named_machine
from tcopt.compiler import Phase, lower
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, VdlaTargetAttr
from tcopt.passes.accelerator.order_units import OrderUnitsPass, plan_program
from tcopt.schedules import Schedule
from tcopt.schedules.rules.vdla.contraction import Contraction, choose_tile, schedule_tile
from tcopt.schedules.rules.vdla.roles import VdlaRoles, find_roles
from tcopt.schedules.rules.vdla.tile_space import TileSpace
from tcopt.schedules.spaces.space import Choice, Point
from tcopt.support.pipelines.running import new_context
from tcopt.support.syntax.parsing import LocatedParser

LOOP = "lower-graph-to-te,te-inline,split-axes,merge-axes,split-operations,lower-te-to-loop"
PROGRAM = "compact-buffers,lower-blocks,inject-virtual-threads,place-sram,lower-loop-to-accelerator"
COLUMNS = ("serial", "one slot", "threads", "slots")
SHIFT = 8
_DRAWN = 200_000
"""Choices that are drawn for a search."""


@dataclass
class Result:
    """Results for a layer.

    Attributes:
        ideal, bound: lower bounds in cycles.
        cycles: cycles by column.
        tokens, other_tokens: tokens of the rule's stream, by regions and by VTA's rule.
        proof: time of the proof in seconds.
    """

    layer: Layer
    ideal: int
    bound: int
    products: int
    cycles: dict[str, int] = field(default_factory=dict[str, int])
    report: ProgramReport | None = None
    tokens: int = 0
    other_tokens: int = 0
    proof: float = 0.0

    @property
    def share(self) -> float:
        """Return the share of the bound."""
        return self.bound / self.cycles["slots"]


def graph(layer: Layer, facts: VdlaTargetAttr, *, bias: bool) -> ModuleOp:
    """Return the layer as a graph with channels in the unit's blocks; with the ALU's work if bytes
    are stored."""
    _, lanes, inner = facts.unit
    c, o, k = ceil(layer.inputs / inner), ceil(layer.outputs / lanes), layer.kernel
    x = f"1x{c}x{layer.size}x{layer.size}x{inner}"
    y = f"1x{o}x{layer.out}x{layer.out}x{lanes}"
    stored, last, after = "i32", "%0", ""
    if "i32" not in facts.stored_types:
        stored, last = "i8", "%5"
        after = f"""
          %1 = graph.add %0, %b : tensor<{y}xi32>
          %2 = graph.shift_right {"%1" if bias else "%0"}, %n : tensor<{y}xi32>
          %3 = graph.max %2, %low : tensor<{y}xi32>
          %4 = graph.min %3, %high : tensor<{y}xi32>
          %5 = graph.cast %4 : tensor<{y}xi8>"""
    text = f"""
      func.func @main(%x: tensor<{x}xi8>, %w: tensor<{o}x{c}x{k}x{k}x1x{lanes}x{inner}xi8>,
                      %b: tensor<1x{o}x1x1x{lanes}xi32>) -> tensor<{y}x{stored}> {{
        %n = graph.constant dense<{SHIFT}> : tensor<i32>
        %low = graph.constant dense<0> : tensor<i32>
        %high = graph.constant dense<127> : tensor<i32>
        %g = graph.group kind = complex_out_fusable {{
          %0 = graph.blocked_conv %x, %w {{strides = [{layer.stride}, {layer.stride}],
            pads = {[layer.pad] * 4}, result_element = i32}} : tensor<{y}xi32>{after}
          graph.yield {last} : tensor<{y}x{stored}>
        }} : tensor<{y}x{stored}> loc("{layer.name}")
        func.return %g : tensor<{y}x{stored}>
      }}"""
    module = LocatedParser(new_context(), text, layer.name).parse_module()
    module.attributes[TARGET_ATTRIBUTE] = facts
    return module


def program(
    module: ModuleOp, column: str, facts: VdlaTargetAttr, choice: Choice | None = None
) -> ProgramOp | None:
    """Return the program of a schedule, without tokens; None if there is no such schedule.

    Args:
        choice: point of the rule's space, instead of the column's.
    """
    lower(module, [Phase("loop", LOOP)])
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    sch = Schedule(function)
    roles = find_roles(sch, facts)
    assert isinstance(roles, VdlaRoles), roles
    threads = 2 if column == "threads" else 1
    if choice is None:
        tile = choose_tile(roles, facts, serial=column == "serial", threads=threads)
    else:
        tile = TileSpace(roles, facts).pieces(Point(choice))
    if tile is None:
        return None
    if column == "one slot":
        tile = replace(tile, slots=(1, 1, 1))
    schedule_tile(sch, roles, tile, facts)
    for op in list(module.ops):
        if op is not function:
            op.detach()
    lower(module, [Phase("program", PROGRAM)])
    (made,) = module.ops
    assert isinstance(made, ProgramOp)
    return made


def searched(layer: Layer, facts: VdlaTargetAttr, count: int, *, bias: bool) -> int:
    """Return the fewest cycles of the given number of choices of the rule's space."""
    module = graph(layer, facts, bias=bias)
    lower(module, [Phase("loop", LOOP)])
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    space = Contraction().space(Schedule(function), facts)
    assert isinstance(space, TileSpace), space
    points = space.draw(_DRAWN, np.random.default_rng(0))
    k = space.at(points)
    costs = np.where(space.valid(k), space.estimate(k), np.inf)
    best = np.unique(points[np.argsort(costs, kind="stable")[: 4 * count]], axis=0)
    rest = space.at(best)
    order = np.argsort(space.estimate(rest), kind="stable")
    found: list[int] = []
    for row in order[:count]:
        module = graph(layer, facts, bias=bias)
        made = program(module, "searched", facts, space.choice(best[row]))
        assert made is not None
        OrderUnitsPass().apply(new_context(), module)
        found.append(report_of(made, facts).cycles)
    return min(found)


def measure(
    layer: Layer,
    facts: VdlaTargetAttr,
    columns: Sequence[str],
    *,
    bias: bool,
    check: bool,
    search: int = 0,
) -> Result:
    """Compile a layer in each way and simulate it."""
    result = _bounds(layer, facts, bias=bias)
    for column in columns:
        module = graph(layer, facts, bias=bias)
        made = program(module, column, facts)
        if made is None:
            continue
        if column == "slots":
            result.other_tokens = plan_program(made, facts, "neighbours").count
            OrderUnitsPass(rule="neighbours").apply(new_context(), module)
            result.cycles["neighbours"] = report_of(made, facts).cycles
            result.tokens = plan_program(made, facts).count
        OrderUnitsPass().apply(new_context(), module)
        start = time.perf_counter()
        check_program(made, facts)
        result.proof = time.perf_counter() - start
        result.report = report_of(made, facts)
        result.cycles[column] = result.report.cycles
        if check and not is_right(made, layer, facts, bias=bias):
            raise SystemExit(f"{layer.name}, {column}: results are not numpy's")
    if search:
        result.cycles["searched"] = searched(layer, facts, search, bias=bias)
    if facts == named_machine("pynq"):
        published = _published(layer, facts)
        if published is not None:
            result.cycles["TVM"] = published
    return result


def _bounds(layer: Layer, facts: VdlaTargetAttr, *, bias: bool) -> Result:
    products = layer.cycles(facts) * facts.gemm_cycles.data
    ideal, moved = products, layer.counted_bytes
    if "i32" not in facts.stored_types:
        vectors = layer.out**2 * ceil(layer.outputs / facts.block_out.data)
        each = facts.gemm_cycles.data + 3 * facts.alu_imm.data + bias * facts.alu_reg.data
        ideal += vectors * each
        moved -= 3 * layer.out**2 * layer.outputs
    port = ceil(moved * facts.port_cycles.data / facts.port_bytes.data)
    return Result(layer, ideal, max(ideal, port), products)


def _published(layer: Layer, facts: VdlaTargetAttr) -> int | None:
    """Return the cycles of VTA's stream with the schedule that TVM published for it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from programs.vdla_programs import PUBLISHED, ConvWriter

    for conv, _ in PUBLISHED:
        shape = (conv.channels, conv.size, conv.outputs, conv.kernel, conv.stride)
        if shape == (layer.inputs, layer.size, layer.outputs, layer.kernel, layer.stride):
            return report_of(ConvWriter(conv).write(), facts).cycles
    return None


def is_right(made: ProgramOp, layer: Layer, facts: VdlaTargetAttr, *, bias: bool) -> bool:
    """Whether a program computes what numpy does, with its units in a random order."""
    rng = np.random.default_rng(0)
    args = {arg.name_hint: arg.type.get_shape() for arg in made.body.block.args}  # pyright: ignore
    names = list(args)
    data, weights = (rng.integers(-128, 128, args[name], np.int8) for name in ("x", "w"))
    bytes_stored = "i32" not in facts.stored_types
    result = np.zeros(args[names[-1]], np.int8 if bytes_stored else np.int32)
    arrays = {"x": data, "w": weights, names[-1]: result}
    if "b" in args:
        arrays["b"] = rng.integers(-5000, 5000, args["b"], np.int32)
    code_for(made, facts).run([arrays[str(name)] for name in names], seed=1)
    around = (layer.pad, layer.pad)
    padded = np.pad(data.astype(np.int64), ((0, 0), (0, 0), around, around, (0, 0)))
    total = np.zeros(result.shape, np.int64)
    end = (layer.out - 1) * layer.stride + 1
    for dy in range(layer.kernel):
        for dx in range(layer.kernel):
            seen = padded[:, :, dy : dy + end : layer.stride, dx : dx + end : layer.stride]
            total += np.einsum("nchwi,ocji->nohwj", seen, weights[:, :, dy, dx, 0].astype(np.int64))
    if bytes_stored:
        added = arrays["b"].reshape(1, -1, 1, 1, total.shape[-1]) if bias else 0
        total = np.clip((total + added) >> SHIFT, 0, 127)
    return bool((result == total).all())


def table_of(results: Sequence[Result]) -> str:
    """Return the results as a Markdown table."""
    columns = list(dict.fromkeys(name for each in results for name in each.cycles))
    last = ["of the bound", "paper", "bound by", "instructions", "tokens", "VTA's", "proof, ms"]
    rows = [["layer", "ideal", "bound", *columns, "utilisation", *last]]
    rows.append(["---"] * len(rows[0]))
    for each in results:
        before, after = each.layer.paper
        assert each.report is not None
        rows.append(
            [
                each.layer.name,
                f"{each.ideal:,}",
                f"{each.bound:,}",
                *(f"{each.cycles[name]:,}" if name in each.cycles else "-" for name in columns),
                f"{each.products / each.cycles['slots']:.3f}",
                f"{each.share:.3f}",
                f"{before:.3f}, {after:.3f}",
                each.report.bound_by,
                str(len(each.report.tasks)),
                str(each.tokens),
                str(each.other_tokens),
                f"{1e3 * each.proof:.0f}",
            ]
        )
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.append(f"geometric mean of the bound's share: {_mean(r.share for r in results):.3f}")
    for name in columns:
        gains = [r.cycles[name] / r.cycles["slots"] for r in results if name in r.cycles]
        if name != "slots":
            lines.append(
                f"by slots {_mean(gains):.2f} times as fast as {name}, {min(gains):.2f} at least"
            )
    if len(results) == len(LAYERS):
        total = sum(r.cycles["slots"] * r.layer.times for r in results)
        lines.append(f"ResNet-18's convolutions but the first: {total:,} cycles")
    return "\n".join(lines)


def _mean(numbers: Iterable[float]) -> float:
    logs = [log(n) for n in numbers]
    return exp(sum(logs) / len(logs))


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
        ("serial", "#e08a2c", "o", [each.products / each.cycles["serial"] for each in results]),
        ("latency hidden", "#3b6fb6", "o", [r.products / r.cycles["slots"] for r in results]),
    ):
        axes.scatter(points, [unit * share for share in shares], 24, colour, marker, label=label)
    for each, at in zip(results, points, strict=True):
        height = unit * each.products / each.cycles["slots"]
        axes.annotate(each.layer.name, (at, height), fontsize=7)
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
    parser.add_argument("--port-bytes", type=int, help="another width of the port")
    parser.add_argument("--layers", nargs="+", help="of these alone, by name")
    parser.add_argument("--columns", nargs="+", default=COLUMNS, help="ways to schedule them")
    parser.add_argument("--no-bias", action="store_true", help="no bias where bytes are stored")
    parser.add_argument("--search", type=int, default=0, help="try so many other choices")
    parser.add_argument("--check", action="store_true", help="compare results with numpy")
    parser.add_argument("--plot", type=Path, help="write a roofline plot")
    parser.add_argument("--json", type=Path, help="write the results")
    args = parser.parse_args(argv)
    target = named_machine(args.machine)
    changed = {"latency": args.latency, "port_bytes": args.port_bytes}
    numbers = {name: value for name, value in changed.items() if value is not None}
    if numbers:
        target = VdlaTargetAttr.of_facts({**target.facts(), **numbers})
    wanted = [each for each in LAYERS if not args.layers or each.name in args.layers]
    columns = [name for name in COLUMNS if name in args.columns or name == "slots"]
    bias = not args.no_bias
    results = [
        measure(layer, target, columns, bias=bias, check=args.check, search=args.search)
        for layer in wanted
    ]
    print(table_of(results))
    if args.json:
        rows = [
            {
                "layer": each.layer.name,
                "ideal": each.ideal,
                "bound": each.bound,
                "products": each.products,
                "cycles": each.cycles,
            }
            for each in results
        ]
        save(args.json, f"python benchmarks/vdla.py --machine {args.machine}", rows)
    if args.plot:
        plot(results, target, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
