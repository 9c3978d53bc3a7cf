"""ResNet-18's convolutions on the accelerator, cycles of the simulator by layer.

    python benchmarks/accelerator_layers.py [--machine vdla] [--latency 16] [--layers C2 C9]

Layers are those of the TVM paper's table 2. *utilization* is the part of the cycles in which the
matrix unit multiplies, *roof* what the port allows by the paper's count: bytes of data, weights and
32-bit results, each once. Columns are schedules of one machine: `serial`, in one slot a buffer and
with pieces chosen for that; `one slot`, the pieces that are best with slots, in one; `slots`, by
the rule; `threads`, two virtual threads with one slot each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp, log

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from table2 import LAYERS, Layer
from tcopt.backends.accelerator.simulator.timing import simulate
from tcopt.backends.vdla.machines import named_machine
from tcopt.backends.vdla.simulator.function import run_stream
from tcopt.backends.vdla.source import stream_for
from tcopt.compiler import Phase, lower
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, VdlaTargetAttr
from tcopt.dialects.vdla import ProgramOp
from tcopt.dialects.vdla.tasks.reading import machine_of, tasks_of
from tcopt.schedules import Schedule
from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.rules.vdla.contraction import choose_tile, schedule_tile
from tcopt.schedules.rules.vdla.roles import Roles, find_roles
from tcopt.schedules.rules.vdla.tiles import Tile
from tcopt.support.parsing import LocatedParser
from tcopt.tools.passes.driver import new_context

LOOP = "fuse-ops,lower-graph-to-te,te-inline,split-axes,merge-axes,lower-te-to-loop"
PROGRAM = (
    "compact-buffers,lower-blocks,inject-virtual-threads,place-sram,lower-loop-to-vdla,"
    "insert-tokens,vdla-check"
)
COLUMNS = ("serial", "one slot", "slots", "threads")


def graph(layer: Layer, facts: VdlaTargetAttr) -> ModuleOp:
    """The layer as a graph, channels in blocks of the unit."""
    _, lanes, inner = facts.unit
    c, o, k = ceil(layer.inputs / inner), ceil(layer.outputs / lanes), layer.kernel
    x = f"1x{c}x{layer.size}x{layer.size}x{inner}"
    y = f"1x{o}x{layer.out}x{layer.out}x{lanes}"
    text = f"""
      func.func @main(%x: tensor<{x}xi8>, %w: tensor<{o}x{c}x{k}x{k}x1x{lanes}x{inner}xi8>)
          -> tensor<{y}xi32> {{
        %0 = graph.blocked_conv %x, %w {{strides = [{layer.stride}, {layer.stride}],
          pads = {[layer.pad] * 4}, result_element = i32}} : tensor<{y}xi32>
        func.return %0 : tensor<{y}xi32>
      }}"""
    module = LocatedParser(new_context(), text, f"{layer.name}.mlir").parse_module()
    module.attributes[TARGET_ATTRIBUTE] = facts
    lower(module, [Phase("loop", LOOP)])
    return module


def program(module: ModuleOp, column: str, facts: VdlaTargetAttr) -> tuple[ProgramOp, Tile] | None:
    """The program of a schedule, and its pieces; None if there are no such ones."""
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    sch = Schedule(function)
    block = sch.get_block("conv")
    pattern = match_block(sch.block_op(block))
    assert pattern is not None
    roles = find_roles(sch, pattern, facts)
    assert isinstance(roles, Roles), roles
    tile = choose_tile(roles, facts, serial=column == "serial")
    if tile is not None and column == "one slot":
        tile = replace(tile, slots=(1, 1, 1))
    if tile is not None and column == "threads":
        tile = choose_tile(roles, facts, threads=2)
    if tile is None:
        return None
    schedule_tile(sch, block, roles, tile, facts)
    for op in list(module.ops):
        if op is not function:
            op.detach()
    lower(module, [Phase("program", PROGRAM)])
    (made,) = module.ops
    assert isinstance(made, ProgramOp)
    return made, tile


def cycles_of(made: ProgramOp, facts: VdlaTargetAttr) -> int:
    """Cycles of a program by the simulator."""
    stream = stream_for(made, facts)
    tasks, _ = tasks_of(stream, facts)
    return simulate(machine_of(facts, stream), tasks).cycles


def is_right(made: ProgramOp, layer: Layer, facts: VdlaTargetAttr) -> bool:
    """Whether a program computes what numpy does, its units in a random order."""
    rng = np.random.default_rng(0)
    x, w, y = (a.type.get_shape() for a in made.body.block.args)  # pyright: ignore
    data, weights = (rng.integers(-128, 128, shape, np.int8) for shape in (x, w))
    result = np.zeros(y, np.int32)
    run_stream(stream_for(made, facts), facts, [data, weights, result], seed=1)
    around = (layer.pad, layer.pad)
    padded = np.pad(data.astype(np.int64), ((0, 0), (0, 0), around, around, (0, 0)))
    total = np.zeros(y, np.int64)
    end = (layer.out - 1) * layer.stride + 1
    for dy in range(layer.kernel):
        for dx in range(layer.kernel):
            seen = padded[:, :, dy : dy + end : layer.stride, dx : dx + end : layer.stride]
            total += np.einsum("nchwi,ocji->nohwj", seen, weights[:, :, dy, dx, 0].astype(np.int64))
    return bool((result == total).all())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--machine", default="vdla", help="a machine's name")
    parser.add_argument("--latency", type=int, help="another latency of its memory, in cycles")
    parser.add_argument("--port-bytes", type=int, help="another width of its port")
    parser.add_argument("--layers", nargs="*", help="names, all of them by default")
    parser.add_argument("--check", action="store_true", help="compare results with numpy")
    args = parser.parse_args()
    facts = named_machine(args.machine)
    changed = {"latency": args.latency, "port_bytes": args.port_bytes}
    numbers = {name: value for name, value in changed.items() if value is not None}
    facts = VdlaTargetAttr.of_facts({**facts.facts(), **numbers})
    print("layer  ideal cycles   roof  paper         " + "".join(f"{c:>22}" for c in COLUMNS))
    shares: dict[str, list[float]] = {column: [] for column in COLUMNS}
    for layer in LAYERS:
        if not args.layers or layer.name in args.layers:
            print(_row(layer, facts, shares, check=args.check), flush=True)
    means = [f"{_mean(shares[column]):22.3f}" if shares[column] else "" for column in COLUMNS]
    print("geometric mean of the roof's share         ".ljust(43) + "".join(means))


def _row(
    layer: Layer, facts: VdlaTargetAttr, shares: dict[str, list[float]], *, check: bool
) -> str:
    ideal, roof = layer.cycles(facts), layer.roof(facts)
    serial, hidden = layer.paper
    cells = [f"{layer.name:5}  {ideal:12,}  {roof:5.3f}  {serial:.3f} {hidden:.3f}   "]
    begin = time.perf_counter()
    for column in COLUMNS:
        made = program(graph(layer, facts), column, facts)
        if made is None:
            cells.append(f"{'-':>22}")
            continue
        if check and not is_right(made[0], layer, facts):
            raise SystemExit(f"{layer.name}, {column}: results are not numpy's")
        cycles = cycles_of(made[0], facts)
        use = ideal / cycles
        shares[column].append(use / roof)
        cells.append(f"{cycles:10,} {use:.3f} {use / roof:5.3f}")
    return "".join(cells) + f"   {time.perf_counter() - begin:.1f} s"


def _mean(numbers: Sequence[float]) -> float:
    return exp(sum(map(log, numbers)) / len(numbers))


if __name__ == "__main__":
    main()
