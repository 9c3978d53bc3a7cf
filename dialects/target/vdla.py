"""`#target.vdla`: an accelerator that is driven by a stream of instructions (dialect `vdla`)."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target.accelerator import AcceleratorFacts, Alu, Fetch, MatrixUnit, Port, Tokens
from tcopt.dialects.target.facts import check_least
from tcopt.dialects.target.hardware import PlacedMemory
from tcopt.dialects.target.interface import target_around

FEATURES = ("alu", "mulh", "load_i8")
"""What a machine may have beside loads, stores and gemm."""

RESULTS = ("i32", "i8")
"""What stores can write: whole registers, or the low byte of each lane."""

ARBITRATIONS = ("first-come", "priority")

_CHAIN = ("load", "compute", "store")
"""Its units, between neighbours of which there are tokens."""

INSTRUCTION_BYTES = 16

_SCOPES = {"acc_input": "inp", "acc_weight": "wgt", "acc_register": "acc"}
"""Memories by the scopes of loops."""

MOST_ENTRIES = {"uop": 1 << 13, "wgt": 1 << 10, "inp": 1 << 11, "acc": 1 << 11}
"""Entries of each memory that the fields of instructions and micro-ops can name."""


@irdl_attr_definition
class VdlaTargetAttr(AcceleratorFacts):
    """A load unit, a compute unit and a store unit around memories that programs place data in.

    - `results`: what stores write, of `i32` (registers) and `i8` (the low byte of each lane).
    - `features`: `alu` (min, max, add, shr), `mulh` (with it), `load_i8` (bytes into registers).
    - `rows`, `block_in`, `block_out`: one gemm micro-op multiplies rows x block_in bytes by the
      transpose of block_out x block_in bytes, and adds to rows x block_out 32-bit sums.
    - `inp_bytes`, `wgt_bytes`, `acc_bytes`, `uop_bytes`: sizes of the memories.
    - `port_bytes`, `port_cycles`: the port to memory moves so many bytes in so many cycles.
    - `channels`: 1 where the port does one transfer at a time, 2 where stores have a channel of
      their own beside that of all reads.
    - `latency`: cycles from the end of a transfer on the port to the end of the instruction.
    - `row_cycles`: cycles of the port for each row of a transfer beside those for its bytes.
    - `arbitration`: who gets the port next: `first-come`, or by `priority` fetch, load, compute,
      store.
    - `fetch`: instructions that are fetched in one transfer.
    - `fill`: cycles of a gemm or alu instruction beside those of its micro-ops.
    - `gemm_cycles`, `alu_imm`, `alu_reg`: cycles of a micro-op; of the alu with a number and with
      a register.
    - `rewrite`: a gemm micro-op may write a register again that was written so many micro-ops
      before; 1 where sums are forwarded.
    - `start`: cycles from the call of a program until its first fetch.
    - `queue`, `tokens`: how many instructions and tokens a queue holds.
    """

    name = "target.vdla"
    DEFAULTS: ClassVar = {
        "results": "i32",
        "features": "",
        "arbitration": "first-come",
        "rows": 1,
        "block_in": 16,
        "block_out": 16,
        "port_bytes": 8,
        "port_cycles": 1,
        "channels": 1,
        "latency": 16,
        "row_cycles": 1,
        "fetch": 16,
        "fill": 6,
        "gemm_cycles": 1,
        "alu_imm": 1,
        "alu_reg": 2,
        "rewrite": 1,
        "start": 0,
        "queue": 512,
        "tokens": 1024,
    }

    results: StringAttr = param_def()
    features: StringAttr = param_def()
    arbitration: StringAttr = param_def()
    rows: IntAttr = param_def()
    block_in: IntAttr = param_def()
    block_out: IntAttr = param_def()
    inp_bytes: IntAttr = param_def()
    wgt_bytes: IntAttr = param_def()
    acc_bytes: IntAttr = param_def()
    uop_bytes: IntAttr = param_def()
    port_bytes: IntAttr = param_def()
    port_cycles: IntAttr = param_def()
    channels: IntAttr = param_def()
    latency: IntAttr = param_def()
    row_cycles: IntAttr = param_def()
    fetch: IntAttr = param_def()
    fill: IntAttr = param_def()
    gemm_cycles: IntAttr = param_def()
    alu_imm: IntAttr = param_def()
    alu_reg: IntAttr = param_def()
    rewrite: IntAttr = param_def()
    start: IntAttr = param_def()
    queue: IntAttr = param_def()
    tokens: IntAttr = param_def()

    @property
    def kind(self) -> str:
        return "vdla"

    @property
    def capabilities(self) -> frozenset[str]:
        """What intrinsics may require: the kind, its features, the shape of its unit
        (`unit_1x16x16`), and `store_i8`, `store_i32`."""
        stores = (f"store_{type}" for type in self.stored_types)
        unit = "x".join(map(str, self.unit))
        return frozenset({"vdla", f"unit_{unit}", *self.feature_names, *stores})

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Its features as names."""
        return tuple(filter(None, self.features.data.split(",")))

    @property
    def stored_types(self) -> tuple[str, ...]:
        """What stores can write, as names of types."""
        return tuple(filter(None, self.results.data.split(",")))

    def has(self, feature: str) -> bool:
        """Whether the machine has a feature."""
        return feature in self.feature_names

    @property
    def entry_bytes(self) -> dict[str, int]:
        """Bytes of one entry by memory, on both sides of a transfer.

        `out` and `acc8` are entries of bytes in memory for registers of the accelerator.
        """
        rows, inner, lanes = self.rows.data, self.block_in.data, self.block_out.data
        return {
            "uop": 4,
            "wgt": lanes * inner,
            "inp": rows * inner,
            "acc": 4 * rows * lanes,
            "out": rows * lanes,
            "acc8": rows * lanes,
        }

    @property
    def entries(self) -> dict[str, int]:
        """Entries that the accelerator has by memory; `out` and `acc8` are views of `acc`."""
        sizes = {
            name: getattr(self, f"{name}_bytes").data // self.entry_bytes[name]
            for name in MOST_ENTRIES
        }
        return {**sizes, "out": sizes["acc"], "acc8": sizes["acc"]}

    @property
    def unit(self) -> tuple[int, int, int]:
        """The shape of the matrix unit: rows, output channels, input channels."""
        return self.rows.data, self.block_out.data, self.block_in.data

    @property
    def memories(self) -> dict[str, PlacedMemory]:
        """Inputs, weights and registers."""
        entries, sizes = self.entries, self.entry_bytes
        return {scope: PlacedMemory(entries[name], sizes[name]) for scope, name in _SCOPES.items()}

    @property
    def units(self) -> tuple[str, ...]:
        return _CHAIN

    @property
    def order(self) -> Tokens:
        """There are tokens both ways between neighbours."""
        pairs = [pair for a, b in pairwise(_CHAIN) for pair in ((a, b), (b, a))]
        return Tokens(dict.fromkeys(pairs, self.tokens.data))

    @property
    def last_unit(self) -> str:
        """Finish is an instruction of the compute unit."""
        return _CHAIN[1]

    @property
    def matrix_unit(self) -> MatrixUnit:
        rows, lanes, inner = self.unit
        return MatrixUnit(rows, lanes, inner, self.gemm_cycles.data, self.stored_types)

    @property
    def alu(self) -> Alu | None:
        if not self.has("alu"):
            return None
        return Alu(
            self.alu_imm.data,
            self.alu_reg.data,
            loads_bytes=self.has("load_i8"),
            registers=self.entries["acc"],
            multiplies=self.has("mulh"),
        )

    @property
    def memory_port(self) -> Port:
        names = ("port",) if self.channels.data == 1 else ("port read", "port write")
        return Port(self.latency.data, self.arbitration.data == "priority", names)

    @property
    def instruction_fetch(self) -> Fetch:
        fetched = self.fetch.data
        cycles = self.transfer_cycles(1, fetched * INSTRUCTION_BYTES)
        return Fetch(fetched, cycles, self.queue.data, self.start.data)

    def transfer_cycles(self, rows: int, row_bytes: int) -> int:
        per_row = -(-row_bytes * self.port_cycles.data // self.port_bytes.data)
        return rows * (self.row_cycles.data + per_row)

    def verify(self) -> None:
        check_least(self, rows=1, block_in=1, block_out=1)
        check_least(self, port_bytes=1, port_cycles=1, latency=0, row_cycles=0, fetch=1, fill=0)
        check_least(self, gemm_cycles=1, alu_imm=1, alu_reg=1, rewrite=1, start=0)
        check_least(self, queue=1, tokens=1, channels=1)
        if self.channels.data > 2:
            raise VerifyException(f"channels = {self.channels.data} should be 1 or 2")
        self._verify_names()
        if self.block_in.data > 1 << 10:
            raise VerifyException(f"block_in = {self.block_in.data} should be at most 1024")
        for name, most in MOST_ENTRIES.items():
            size, entry = getattr(self, f"{name}_bytes").data, self.entry_bytes[name]
            if size < entry or size % entry:
                raise VerifyException(
                    f"{name}_bytes = {size} should be whole entries of {entry} bytes"
                )
            if size // entry > most:
                raise VerifyException(
                    f"{name}_bytes = {size} are {size // entry} entries, instructions can name "
                    f"{most}"
                )

    def _verify_names(self) -> None:
        for name in self.feature_names:
            if name not in FEATURES:
                raise VerifyException(f'feature "{name}" should be one of {", ".join(FEATURES)}')
        if self.has("mulh") and not self.has("alu"):
            raise VerifyException('feature "mulh" is one of the alu')
        stored = self.stored_types
        if not stored or any(type not in RESULTS for type in stored):
            raise VerifyException(
                f'results = "{self.results.data}" should name some of {", ".join(RESULTS)}'
            )
        if self.arbitration.data not in ARBITRATIONS:
            raise VerifyException(
                f'arbitration "{self.arbitration.data}" should be one of {", ".join(ARBITRATIONS)}'
            )


def vdla_target_of(op: Operation) -> VdlaTargetAttr | None:
    """The accelerator that an op is for: what it, or the nearest op around it, names."""
    target = target_around(op)
    return target if isinstance(target, VdlaTargetAttr) else None
