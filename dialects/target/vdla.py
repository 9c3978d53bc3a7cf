"""`#target.vdla`: an accelerator driven by an instruction stream (dialect `vdla`)."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target.accelerator import AcceleratorFacts, Alu, Fetch, MatrixUnit, Port, Tokens
from tcopt.dialects.target.facts import check_least
from tcopt.dialects.target.interface import PlacedMemory, target_around

FEATURES = ("alu", "mulh", "load_i8")
"""Optional features of a machine; loads, stores and gemm always exist."""

RESULTS = ("i32", "i8")
"""Types that stores can write: whole registers, or the low byte of each lane."""

ARBITRATIONS = ("first-come", "priority")

_CHAIN = ("load", "compute", "store")
"""The units of the accelerator; adjacent ones exchange tokens."""

INSTRUCTION_BYTES = 16

_SCOPES = {"acc_input": "inp", "acc_weight": "wgt", "acc_register": "acc"}
"""Memories by memory scope of the loop dialect."""

MOST_ENTRIES = {"uop": 1 << 13, "wgt": 1 << 10, "inp": 1 << 11, "acc": 1 << 11}
"""Maximum entries of each memory that instructions and micro-ops can address."""


@irdl_attr_definition
class VdlaTargetAttr(AcceleratorFacts):
    """A load unit, a compute unit and a store unit around memories in which programs place data.

    - `results`: types that stores write, of `i32` (registers) and `i8` (the low byte of each
      lane).
    - `features`: `alu` (min, max, add, shr), `mulh` (requires `alu`), `load_i8` (bytes into
      registers).
    - `rows`, `block_in`, `block_out`: one gemm micro-op multiplies rows x block_in bytes by the
      transpose of block_out x block_in bytes, and accumulates into rows x block_out 32-bit sums.
    - `inp_bytes`, `wgt_bytes`, `acc_bytes`, `uop_bytes`: sizes of the memories.
    - `port_bytes`, `port_cycles`: the memory port moves `port_bytes` in `port_cycles` cycles.
    - `channels`: 1 if the port does one transfer at a time, 2 if stores have a channel separate
      from all reads.
    - `latency`: cycles from the end of a transfer on the port to the end of the instruction.
    - `row_cycles`: additional port cycles for each row of a transfer.
    - `arbitration`: of the port, `first-come`, or by `priority`: fetch, load, compute, store.
    - `fetch`: instructions fetched in one transfer.
    - `fill`: cycles of a gemm or alu instruction in addition to those of its micro-ops.
    - `gemm_cycles`, `alu_imm`, `alu_reg`: cycles of a micro-op; for the alu with an immediate and
      with a register operand.
    - `rewrite`: minimum distance in micro-ops between two gemm writes to one register; 1 if sums
      are forwarded.
    - `start`: cycles from the call of a program to its first fetch.
    - `queue`, `tokens`: capacity of an instruction queue and of a token queue.
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
        """What intrinsics may require: the kind, its features, the shape of its matrix unit
        (`unit_1x16x16`), and `store_i8`, `store_i32`."""
        stores = (f"store_{type}" for type in self.stored_types)
        unit = "x".join(map(str, self.unit))
        return frozenset({"vdla", f"unit_{unit}", *self.feature_names, *stores})

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of its features."""
        return tuple(filter(None, self.features.data.split(",")))

    @property
    def stored_types(self) -> tuple[str, ...]:
        """The names of the types that stores can write."""
        return tuple(filter(None, self.results.data.split(",")))

    def has(self, feature: str) -> bool:
        """Whether the machine has a feature."""
        return feature in self.feature_names

    @property
    def entry_bytes(self) -> dict[str, int]:
        """Bytes of one entry of each memory, in external memory and on the accelerator.

        `out` and `acc8` are byte entries in external memory that correspond to registers.
        """
        return _entry_bytes(*self.unit)

    @property
    def entries(self) -> dict[str, int]:
        """The number of entries of each memory; `out` and `acc8` are views of `acc`."""
        sizes = tuple(getattr(self, f"{name}_bytes").data for name in MOST_ENTRIES)
        return _entries(self.unit, sizes)

    @property
    def unit(self) -> tuple[int, int, int]:
        """The shape of the matrix unit: rows, output channels, input channels."""
        return self.rows.data, self.block_out.data, self.block_in.data

    @property
    def memories(self) -> dict[str, PlacedMemory]:
        """The memories for inputs, weights and accumulators."""
        entries, sizes = self.entries, self.entry_bytes
        return {scope: PlacedMemory(entries[name], sizes[name]) for scope, name in _SCOPES.items()}

    @property
    def spaces(self) -> dict[str, int]:
        entries = self.entries
        return {name: entries[name] for name in _SCOPES.values()}

    @property
    def granule(self) -> int:
        """The largest number of bytes that divides every entry size of data."""
        return gcd(*(size for name, size in self.entry_bytes.items() if name != "uop"))

    @property
    def relay_bytes(self) -> int:
        """The size of a micro-op, which such an instruction loads."""
        return self.entry_bytes["uop"]

    @property
    def units(self) -> tuple[str, ...]:
        return _CHAIN

    @property
    def order(self) -> Tokens:
        """Tokens in both directions between adjacent units."""
        pairs = [pair for a, b in pairwise(_CHAIN) for pair in ((a, b), (b, a))]
        return Tokens(dict.fromkeys(pairs, self.tokens.data))

    @property
    def last_unit(self) -> str:
        """The compute unit, which executes Finish."""
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
                    f"{name}_bytes = {size} are {size // entry} entries, instructions can address "
                    f"{most}"
                )

    def _verify_names(self) -> None:
        for name in self.feature_names:
            if name not in FEATURES:
                raise VerifyException(f'feature "{name}" should be one of {", ".join(FEATURES)}')
        if self.has("mulh") and not self.has("alu"):
            raise VerifyException('feature "mulh" requires "alu"')
        stored = self.stored_types
        if not stored or any(type not in RESULTS for type in stored):
            raise VerifyException(
                f'results = "{self.results.data}" should name some of {", ".join(RESULTS)}'
            )
        if self.arbitration.data not in ARBITRATIONS:
            raise VerifyException(
                f'arbitration "{self.arbitration.data}" should be one of {", ".join(ARBITRATIONS)}'
            )


@lru_cache(maxsize=64)
def _entry_bytes(rows: int, lanes: int, inner: int) -> dict[str, int]:
    return {
        "uop": 4,
        "wgt": lanes * inner,
        "inp": rows * inner,
        "acc": 4 * rows * lanes,
        "out": rows * lanes,
        "acc8": rows * lanes,
    }


@lru_cache(maxsize=64)
def _entries(unit: tuple[int, int, int], sizes: tuple[int, ...]) -> dict[str, int]:
    bytes_ = _entry_bytes(*unit)
    found = {name: size // bytes_[name] for name, size in zip(MOST_ENTRIES, sizes, strict=True)}
    return {**found, "out": found["acc"], "acc8": found["acc"]}


def vdla_target_of(op: Operation) -> VdlaTargetAttr | None:
    """Return the VDLA target of an op or of the nearest op around it that has a target."""
    target = target_around(op)
    return target if isinstance(target, VdlaTargetAttr) else None
