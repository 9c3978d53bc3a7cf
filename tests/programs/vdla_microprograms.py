"""Random VDLA programs for machines with a 2 x 2 matrix unit: all instructions, in random order,
with the required tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, VdlaTargetAttr
from tcopt.passes.accelerator.order_units import OrderUnitsPass
from tcopt.support.pipelines.running import new_context
from tcopt.support.syntax.parsing import LocatedParser

SMALL = {
    "rows": 1, "block_in": 2, "block_out": 2, "results": "i32,i8", "port_bytes": 2, "latency": 5,
    "fill": 3, "inp_bytes": 32, "wgt_bytes": 32, "acc_bytes": 96, "uop_bytes": 128,
    "features": "alu,mulh,load_i8",
}  # fmt: skip
"""A machine with 16 inputs, 8 weights, 12 registers and 32 micro-ops."""

_INPUTS, _WEIGHTS, _REGISTERS, _SHIFTS = 16, 8, 8, 4
"""Registers after the first 8 hold valid shift amounts."""

_AT_ONCE = 2
"""Micro-ops of a kernel."""

_CODES = ("min", "max", "add", "shr", "mulh")
_TILE = 8
"""Registers of `%y` and `%z` that each store may write."""


def random_machine(seed: int) -> VdlaTargetAttr:
    """Return a machine with random port, queues and latencies."""
    numbers = random.Random(f"machine {seed}")
    rewrite = numbers.choice([1, 1, 2, 3])
    facts = {
        "arbitration": numbers.choice(["first-come", "priority"]),
        "channels": numbers.randint(1, 2),
        "fetch": numbers.randint(2, 6),
        "latency": numbers.randint(2, 9),
        "fill": numbers.randint(rewrite, 5),
        "gemm_cycles": numbers.randint(1, 2),
        "alu_imm": numbers.randint(1, 2),
        "alu_reg": numbers.randint(1, 3),
        "rewrite": rewrite,
        "start": numbers.choice([0, 1, 20]),
        "queue": numbers.choice([1, 2, 3, 63]),
    }
    return VdlaTargetAttr.of_facts({**SMALL, **facts})


class MicroprogramWriter:
    """Writer of a random program for a machine."""

    def __init__(self, seed: int, target: VdlaTargetAttr):
        self.numbers, self.target = random.Random(seed), target
        self.kernels: list[str] = []
        self.steps: list[str] = []
        self.names: dict[str, list[str]] = {"gemm": [], "alu": [], "shift": []}

    def write(self) -> ProgramOp:
        """Return the program, with tokens."""
        self._kernel("gemm", [8], [[1], [0], [0]], [[0, 0, 0]], "all")
        for kind, ends in (
            ("gemm", (_REGISTERS, _INPUTS, _WEIGHTS)),
            ("alu", (_REGISTERS, _REGISTERS)),
            ("shift", (_REGISTERS, _SHIFTS)),
        ):
            for n in range(2):
                self._random_kernel(kind, ends, f"{kind}{n}")
        names = [kernel.partition(" ")[0] for kernel in self.kernels]
        self.steps += [
            f"vdla.load_uops {', '.join(names)}",
            f"vdla.load inp 0, %x[0] : 1x{_INPUTS}",
            f"vdla.load wgt 0, %w[0] : 1x{_WEIGHTS}",
            f"vdla.load acc {_REGISTERS}, %s[0] : 1x{_SHIFTS}",
            "vdla.gemm reset %all",
        ]
        for number in range(self.numbers.randint(6, 12)):
            self._step(number)
        self.steps += [f"vdla.store acc 0, %y[{12 * _TILE}] : 1x{_REGISTERS}", "accelerator.finish"]
        buffers = "%x: memref<24x2xi8>, %w: memref<10x4xi8>, %a: memref<20x2xi32>"
        buffers += f", %s: memref<{_SHIFTS}x2xi32>, %c: memref<20x2xi8>"
        results = 13 * _TILE
        buffers += f", %y: memref<{results}x2xi32>, %z: memref<{results}x2xi8>"
        text = "\n".join([*self.kernels, *self.steps])
        text = f"accelerator.program @p({buffers}) {{\n{text}\n}}"
        module = LocatedParser(new_context(), text, "program").parse_module()
        module.attributes[TARGET_ATTRIBUTE] = self.target
        OrderUnitsPass().apply(new_context(), module)
        (program,) = module.ops
        assert isinstance(program, ProgramOp)
        return program

    def _kernel(
        self,
        kind: str,
        loops: Sequence[int],
        steps: Sequence[Sequence[int]],
        uops: Sequence[Sequence[int]],
        name: str,
    ) -> None:
        at = 0 if not self.kernels else 1 + _AT_ONCE * (len(self.kernels) - 1)
        rows = "\n".join(f"uop {', '.join(map(str, uop))}" for uop in uops)
        fields = zip(("dst", "src", "wgt"), steps, strict=False)
        told = " ".join(f"{field} {list(each)}" for field, each in fields)
        self.kernels.append(
            f"%{name} = vdla.kernel {kind} at {at} {list(loops)} {told} {{\n{rows}\n}}"
        )

    def _random_kernel(self, kind: str, ends: tuple[int, ...], name: str) -> None:
        """One of two micro-ops in two loops, with fields below these bounds."""
        numbers = self.numbers
        while True:
            loops = [numbers.randint(1, 3), numbers.randint(1, 3)]
            steps = [[numbers.randint(0, 1) for _ in loops] for _ in ends]
            moved = [sum((n - 1) * s for n, s in zip(loops, each, strict=True)) for each in steps]
            if any(most >= end for most, end in zip(moved, ends, strict=True)):
                continue
            uops = [
                [numbers.randint(0, end - 1 - most) for end, most in zip(ends, moved, strict=True)]
                for _ in range(_AT_ONCE)
            ]
            if kind != "gemm" or not self._rewrites(loops, steps[0], uops):
                break
        if kind == "shift":
            uops = [[dst, _REGISTERS + src] for dst, src in uops]
        self.names[kind].append(name)
        self._kernel("gemm" if kind == "gemm" else "alu", loops, steps, uops, name)

    def _rewrites(
        self, loops: Sequence[int], steps: Sequence[int], uops: Sequence[Sequence[int]]
    ) -> bool:
        """Whether a register is written again sooner than the machine's latency allows."""
        written = [
            uop[0] + i * steps[0] + j * steps[1]
            for i in range(loops[0])
            for j in range(loops[1])
            for uop in uops
        ]
        apart = range(1, self.target.rewrite.data)
        return any(a == b for n in apart for a, b in zip(written, written[n:], strict=False))

    def _step(self, number: int) -> None:
        numbers = self.numbers
        made = [
            self._load("inp", "%x", _INPUTS),
            self._load("wgt", "%w", _WEIGHTS),
            self._load("acc", "%a", _REGISTERS),
            self._load("acc8", "%c", _REGISTERS),
            f"vdla.gemm %{numbers.choice(self.names['gemm'])}",
            f"vdla.gemm %{numbers.choice(self.names['gemm'])}",
            self._alu(),
            self._alu(),
            self._alu(),
            self._store("acc", "%y", number),
            self._store("out", "%z", number),
        ]
        self.steps.append(numbers.choice(made))

    def _load(self, memory: str, buffer: str, entries: int) -> str:
        """A load of a tile that fits, padded in half of the cases."""
        numbers = self.numbers
        while True:
            rows, columns = numbers.randint(1, 2), numbers.randint(1, 3)
            pads = [numbers.choice([0, 0, 1, 2]) for _ in range(4)]
            pads = pads if numbers.random() < 0.5 else [0] * 4
            top, bottom, left, right = pads
            count = (top + rows + bottom) * (left + columns + right)
            if count <= entries:
                break
        sram, place = numbers.randint(0, entries - count), numbers.randint(0, 2)
        stride = columns + numbers.randint(0, 1)
        pad = f" pad {pads}" if any(pads) else ""
        return (
            f"vdla.load {memory} {sram}, {buffer}[{place}] : {rows}x{columns} stride {stride}{pad}"
        )

    def _alu(self) -> str:
        numbers = self.numbers
        code, kernel = numbers.choice(_CODES), numbers.choice(self.names["alu"])
        if numbers.random() < 0.5:
            most = 31 if code == "shr" else numbers.choice([3, 1 << 15])
            return f"vdla.alu {code} %{kernel}, {numbers.randint(-most, most - 1)}"
        if code == "shr":
            kernel = numbers.choice(self.names["shift"])
        return f"vdla.alu {code} %{kernel}"

    def _store(self, memory: str, buffer: str, number: int) -> str:
        rows, columns = self.numbers.randint(1, 2), self.numbers.randint(1, 3)
        sram = self.numbers.randint(0, _REGISTERS - rows * columns)
        stride = columns + self.numbers.randint(0, 1)
        place = f"{buffer}[{_TILE * number}]"
        return f"vdla.store {memory} {sram}, {place} : {rows}x{columns} stride {stride}"


def microprogram(seed: int, target: VdlaTargetAttr) -> ProgramOp:
    """Return a random program for a machine such as `SMALL`."""
    return MicroprogramWriter(seed, target).write()


def arrays(seed: int) -> list[np.ndarray]:
    """Return the values of a microprogram's buffers; results start with a sentinel."""
    rng = np.random.default_rng(seed)
    x, w, c = (
        rng.integers(-128, 128, (n, m)).astype(np.int8) for n, m in ((24, 2), (10, 4), (20, 2))
    )
    a = rng.integers(-(2**31), 2**31, (20, 2)).astype(np.int32)
    a[::3] = rng.choice([-(2**31), 2**31 - 1, 0, -1], (7, 2))
    s = rng.integers(-31, 32, (_SHIFTS, 2)).astype(np.int32)
    y, z = np.full((13 * _TILE, 2), 77, np.int32), np.full((13 * _TILE, 2), 77, np.int8)
    return [x, w, a, s, c, y, z]
