"""A Gemmini-like accelerator in one file: a scratchpad of rows shared by data and weights, an
accumulator whose read-out scales sums to bytes, instructions of up to 16 rows, and hazard detection
in hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.arith import MaxSIOp
from xdsl.dialects.builtin import IntAttr, i8
from xdsl.ir import Operation
from xdsl.irdl import irdl_attr_definition, param_def

from tcopt.dialects import graph
from tcopt.dialects.accelerator import Instruction
from tcopt.dialects.graph.core.types import element_type
from tcopt.dialects.intrinsics import Intrinsic, register
from tcopt.dialects.loop.scopes import Scope, Sharing, register_scope
from tcopt.dialects.target.accelerator import (
    AcceleratorFacts,
    Fetch,
    Interlocks,
    Issue,
    MatrixInstructions,
    MatrixUnit,
    Port,
)
from tcopt.dialects.target.interface import PlacedMemory
from tcopt.dialects.te import api as te
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.accelerator.contraction import MatrixContraction
from tcopt.schedules.rules.rule import schedule_rule
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.target_registry import register_target
from tcopt.targets.accelerator import AcceleratorKind

SIZE = 16
PAD, SUMS = "scratchpad_rows", "accumulator_rows"
for _name in (PAD, SUMS):
    register_scope(Scope(_name, Sharing.ALL, is_placed=True))


@irdl_attr_definition
class ScalingFacts(AcceleratorFacts):
    """Three units: the load, execute and store controllers. Addresses are rows."""

    name = "scaling.machine"
    DEFAULTS: ClassVar = {"pad_rows": 4096, "sum_rows": 512, "latency": 30}

    pad_rows: IntAttr = param_def()
    sum_rows: IntAttr = param_def()
    latency: IntAttr = param_def()

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scaling"})

    @property
    def units(self) -> Sequence[str]:
        return ("load", "execute", "store")

    @property
    def memories(self) -> Mapping[str, PlacedMemory]:
        return {
            PAD: PlacedMemory(self.pad_rows.data, SIZE),
            SUMS: PlacedMemory(self.sum_rows.data, 4 * SIZE),
        }

    @property
    def order(self) -> Interlocks:
        return Interlocks()

    @property
    def memory_port(self) -> Port:
        return Port(self.latency.data)

    @property
    def instruction_fetch(self) -> Fetch:
        """The host sends instructions, which wait in the reservation station."""
        return Fetch(burst=1, cycles=0, depth=16)

    def transfer_cycles(self, rows: int, row_bytes: int) -> int:
        return rows * -(-row_bytes // SIZE)

    def issue_cycles(self, issue: Issue) -> int:
        """Weights are shifted in, then one row is computed per cycle."""
        return SIZE + issue.steps if issue.unit == "execute" else 0

    @property
    def matrix_unit(self) -> MatrixUnit:
        names = MatrixInstructions(
            PAD, PAD, SUMS, "scaling_move_in", "scaling_move_weights_in",
            "scaling_clear", "scaling_multiply", "scaling_move_out",
        )  # fmt: skip
        return MatrixUnit(1, SIZE, SIZE, results=("i32", "i8"), instructions=names)

    def reads_out(self, ops: Sequence[Operation]) -> bool:
        """A bias, a ReLU, and bytes with zero point 0."""
        first, *relu = [type(op) for op in ops[:-1]] or [None]
        if first is not graph.AddOp or relu not in ([], [graph.ReluOp]):
            return False
        last = ops[-1]
        if not isinstance(last, graph.RequantizeOp) or element_type(last.result) != i8:
            return False
        zero = last.zero.owner
        return isinstance(zero, graph.ConstantOp) and not np.any(zero.evaluate()[0])


MACHINES: Registry[str, ScalingFacts] = Registry("scaling machine", in_keys=True)
MACHINES["scaling"] = ScalingFacts.of_facts({})


def declare(name: str, unit: str, behaviour: Any, inputs: Any = None, **more: Any) -> None:
    loops = (SIZE,) if unit != "load" else (4, SIZE)
    register(
        Intrinsic(
            name,
            inputs=inputs or {},
            behaviour=behaviour,
            requires=[{"scaling"}],
            instruction=Instruction(unit, loops),
            **more,
        )
    )


def multiplied(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    i = te.reduce_axis(SIZE, "i")

    def lane(o: te.Axis) -> te.Reduce:
        return te.sum(te.cast(x[i], "i32") * te.cast(w[o, i], "i32"), axis=i)

    return te.compute((SIZE,), lane)


ROW, BLOCK = ((SIZE,), "i8"), ((SIZE, SIZE), "i8")
declare(
    "scaling_move_in", "load", lambda x: te.compute((SIZE,), lambda i: x[i]),
    {"x": ROW}, padded=["x"], scopes={"out": PAD},
)  # fmt: skip
declare(
    "scaling_move_weights_in", "load", lambda x: te.compute((SIZE, SIZE), lambda o, i: x[o, i]),
    {"x": BLOCK}, scopes={"out": PAD},
)  # fmt: skip
declare(
    "scaling_clear", "execute", lambda: te.compute((SIZE,), lambda o: te.cast(0, "i32")),
    scopes={"out": SUMS},
)  # fmt: skip
declare(
    "scaling_multiply", "execute", multiplied, {"x": ROW, "w": BLOCK},
    scopes={"out": SUMS, "x": PAD, "w": PAD},
)  # fmt: skip
declare(
    "scaling_move_out", "store", lambda x: te.compute((SIZE,), lambda o: x[o]),
    {"x": ((SIZE,), "i32")}, scopes={"x": SUMS},
)  # fmt: skip


def read_out(name: str, *, relu: bool) -> None:
    """Requantise sums to bytes: add a bias, optionally apply ReLU, scale by a factor for each
    channel, clamp and round."""

    def behaviour(x: te.Tensor, bias: te.Tensor, scale: te.Tensor) -> te.Tensor:
        def lane(o: te.Axis) -> te.Expr:
            total = x[o] + bias[o]
            if relu:
                total = te.maximum(total, te.cast(0, "i32"))
            scaled = te.cast(total, "f32") * scale[o]
            limited = te.fmax(scaled, te.const(-128.0, "f32"))
            limited = te.fmin(limited, te.const(127.0, "f32"))
            return te.cast(te.cast(te.round(limited), "i32") + te.cast(0, "i32"), "i8")

        return te.compute((SIZE,), lane)

    operands = {"x": ((SIZE,), "i32"), "bias": ((SIZE,), "i32"), "scale": ((SIZE,), "f32")}
    declare(name, "store", behaviour, operands, scopes={"x": SUMS})


read_out("scaling_read_out", relu=False)
read_out("scaling_read_out_relu", relu=True)


@schedule_rule(target="scaling", priority=100)
class ReadOutContraction(MatrixContraction):
    """Products whose sums are stored, or scaled on read-out."""

    name = "scaling-contraction"

    def stores(self, sch: Schedule, block: Block, facts: ScalingFacts) -> bool:
        """Accept all operators, because the facts offer only those of a read-out."""
        self.relu = any(isinstance(op, MaxSIOp) for op in sch.block_op(block).walk())
        return True

    def store_instruction(
        self, facts: ScalingFacts, instructions: MatrixInstructions, is_computed: bool
    ) -> str:
        if not is_computed:
            return instructions.store
        return "scaling_read_out_relu" if self.relu else "scaling_read_out"


@register_target
class Scaling(AcceleratorKind):
    """A target pair: this CPU, and a machine that scales on read-out."""

    name = "scaling"
    facts = ScalingFacts
    machines = MACHINES
