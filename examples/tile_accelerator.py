"""Custom accelerator in one file: four units, among them a matrix unit of 8 x 4, three memories,
and synchronisation by barriers or, on a second machine, by tokens. Run it, or pass it to any tool:

tcopt-run model.onnx --load examples/tile_accelerator.py --target tile
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.irdl import irdl_attr_definition, param_def

from tcopt.dialects.accelerator import Instruction
from tcopt.dialects.intrinsics import Intrinsic, register
from tcopt.dialects.loop.scopes import Scope, Sharing, register_scope
from tcopt.dialects.target.accelerator import (
    AcceleratorFacts,
    Barriers,
    Issue,
    MatrixInstructions,
    MatrixUnit,
    Order,
    Port,
    Tokens,
)
from tcopt.dialects.target.interface import PlacedMemory
from tcopt.dialects.te import api as te
from tcopt.schedules.rules.accelerator.contraction import MatrixContraction
from tcopt.schedules.rules.rule import schedule_rule
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.target_registry import register_target
from tcopt.targets.accelerator import AcceleratorKind

LANES, INNER = 8, 4
DATA, WEIGHTS, SUMS = "tile_data", "tile_weights", "tile_sums"
for _name in (DATA, WEIGHTS, SUMS):
    register_scope(Scope(_name, Sharing.ALL, is_placed=True))


@irdl_attr_definition
class TileFacts(AcceleratorFacts):
    """Facts about a tile machine, used by passes, rules, the proof and the simulator."""

    name = "tile.machine"
    DEFAULTS: ClassVar = {"waiting": "barriers", "kilobytes": 4, "latency": 20, "port_bytes": 4}

    waiting: StringAttr = param_def()
    kilobytes: IntAttr = param_def()
    latency: IntAttr = param_def()
    port_bytes: IntAttr = param_def()

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"tile"})

    @property
    def units(self) -> Sequence[str]:
        return ("data", "weights", "matrix", "drain")

    @property
    def memories(self) -> Mapping[str, PlacedMemory]:
        size = self.kilobytes.data << 10
        return {
            DATA: PlacedMemory(size // INNER, INNER),
            WEIGHTS: PlacedMemory(size // (LANES * INNER), LANES * INNER),
            SUMS: PlacedMemory(size // (4 * LANES), 4 * LANES),
        }

    @property
    def order(self) -> Order:
        if self.waiting.data == "barriers":
            return Barriers(cycles=2)
        return Tokens(dict.fromkeys(permutations(self.units, 2), 8))

    @property
    def memory_port(self) -> Port:
        return Port(self.latency.data)

    def transfer_cycles(self, rows: int, row_bytes: int) -> int:
        return rows * (1 + -(-row_bytes // self.port_bytes.data))

    def issue_cycles(self, issue: Issue) -> int:
        return 3 + issue.steps if issue.unit == "matrix" else 0

    @property
    def matrix_unit(self) -> MatrixUnit:
        names = MatrixInstructions(
            DATA, WEIGHTS, SUMS, "tile_load_data", "tile_load_weights",
            "tile_clear", "tile_multiply", "tile_drain",
        )  # fmt: skip
        return MatrixUnit(1, LANES, INNER, instructions=names)


MACHINES: Registry[str, TileFacts] = Registry("tile machine", in_keys=True)
MACHINES["barriers"] = TileFacts.of_facts({})
MACHINES["tokens"] = TileFacts.of_facts({"waiting": "tokens"})


def copy(name: str, shape: tuple[int, ...], dtype: str, unit: str, **scopes: str) -> Intrinsic:
    """Register a transfer of one entry in three loops; loads pad their buffer with zeros."""

    def behaviour(x: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda *at: x[at])

    return register(
        Intrinsic(
            name,
            inputs={"x": (shape, dtype)},
            behaviour=behaviour,
            requires=[{"tile"}],
            padded=["x"] if "out" in scopes else [],
            scopes=scopes,
            instruction=Instruction(unit, loops=(1024, 1024, 1024)),
        )
    )


copy("tile_load_data", (INNER,), "i8", "data", out=DATA)
copy("tile_load_weights", (LANES, INNER), "i8", "weights", out=WEIGHTS)
copy("tile_drain", (LANES,), "i32", "drain", x=SUMS)


def multiplied(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    i = te.reduce_axis(INNER, "i")

    def lane(o: te.Axis) -> te.Reduce:
        return te.sum(te.cast(x[i], "i32") * te.cast(w[o, i], "i32"), axis=i)

    return te.compute((LANES,), lane)


register(
    Intrinsic(
        "tile_multiply",
        inputs={"x": ((INNER,), "i8"), "w": ((LANES, INNER), "i8")},
        behaviour=multiplied,
        requires=[{"tile"}],
        scopes={"out": SUMS, "x": DATA, "w": WEIGHTS},
        instruction=Instruction("matrix", loops=(64, 64, 64, 64)),
    )
)
register(
    Intrinsic(
        "tile_clear",
        inputs={},
        behaviour=lambda: te.compute((LANES,), lambda o: te.cast(0, "i32")),
        requires=[{"tile"}],
        scopes={"out": SUMS},
        instruction=Instruction("matrix", loops=(1024,)),
    )
)


@register_target
class Tile(AcceleratorKind):
    """Target kind of this CPU with a tile machine as accelerator."""

    name = "tile"
    facts = TileFacts
    machines = MACHINES


schedule_rule(target="tile", priority=100)(MatrixContraction)


def main() -> int:
    """Print the program of a small product for both machines."""
    from tcopt.tools.tcopt import main as tcopt

    passes = (
        "lower-graph-to-te,te-inline,split-axes,merge-axes,lower-te-to-loop,schedule{now=true},"
        "apply-schedule,compact-buffers,lower-blocks,place-sram,lower-loop-to-accelerator,order-units"
    )
    for machine in MACHINES:
        text = str(Path(__file__).parent / "tile_product.mlir")
        pipeline = f'set-target{{target="tile:{machine}"}},{passes}'
        if code := tcopt([text, "-p", pipeline]):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
