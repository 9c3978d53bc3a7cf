"""VDLA programs for tests: tiled convolutions in the form of VTA's schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue

from tcopt.dialects.accelerator import FinishOp, ProgramOp, StepOp
from tcopt.dialects.vdla import (
    AluCode,
    AluOp,
    GemmOp,
    KernelKind,
    KernelOp,
    LoadOp,
    LoadUopsOp,
    Memory,
    StoreOp,
    Unit,
)

BLOCK = 16


class Writer:
    """Program writer; equal kernels are shared, and loaded at their first use."""

    def __init__(self, name: str, shapes: dict[str, tuple[tuple[int, ...], int]]):
        self.name = name
        self.types = [MemRefType(IntegerType(bits), shape) for shape, bits in shapes.values()]
        self.block = Block(arg_types=self.types)
        self.buffers: dict[str, SSAValue] = dict(zip(shapes, self.block.args, strict=True))
        for name_, value in self.buffers.items():
            value.name_hint = name_
        self.ops: list[Operation] = []
        self.kernels: dict[object, KernelOp] = {}
        self.next_place = 0

    def add(self, op: StepOp, pops: Sequence[Unit] = (), pushes: Sequence[Unit] = ()) -> StepOp:
        op.set_tokens(tuple(pops), tuple(pushes))
        self.ops.append(op)
        return op

    def kernel(
        self,
        kind: KernelKind,
        loops: Sequence[int],
        factors: Sequence[Sequence[int]],
        rows: Sequence[Sequence[int]],
    ) -> SSAValue:
        key = (kind, tuple(loops), tuple(map(tuple, factors)), tuple(map(tuple, rows)))
        if key not in self.kernels:
            self.kernels[key] = KernelOp(kind, self.next_place, loops, factors, rows)
            self.next_place += len(rows)
            self.add(LoadUopsOp([self.kernels[key].result]))
        return self.kernels[key].result

    def program(self) -> ProgramOp:
        self.block.add_ops([*self.kernels.values(), *self.ops])
        return ProgramOp(self.name, self.types, Region(self.block))


@dataclass(frozen=True)
class Conv:
    """A convolution of one image with channel blocks of 16, and its tiling.

    Attributes:
        tile_h, tile_w: tile extents of the output. tile_ci, tile_co: channel blocks of a tile.
        oc_threads, h_threads: virtual threads along output channels and rows.
        alu: whether sums are shifted, clipped and stored as bytes.
    """

    channels: int
    size: int
    outputs: int
    kernel: int
    stride: int
    pad: int
    tile_h: int
    tile_w: int
    tile_ci: int = 1
    tile_co: int = 1
    oc_threads: int = 1
    h_threads: int = 1
    alu: bool = False

    @property
    def out(self) -> int:
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def blocks_in(self) -> int:
        return self.channels // BLOCK

    @property
    def blocks_out(self) -> int:
        return self.outputs // BLOCK

    @property
    def threads(self) -> int:
        return self.oc_threads * self.h_threads

    def arrays(self, seed: int = 0) -> list[NDArray[np.generic]]:
        """Return random inputs and weights, and an output filled with a sentinel."""
        rng = np.random.default_rng(seed)
        bytes_ = [
            rng.integers(-128, 128, shape, np.int8)
            for shape in (self.shapes()["x"][0], self.shapes()["w"][0])
        ]
        y = np.full(self.shapes()["y"][0], 77, np.int8 if self.alu else np.int32)
        return [*bytes_, y]

    def shapes(self) -> dict[str, tuple[tuple[int, ...], int]]:
        return {
            "x": ((self.blocks_in, self.size, self.size, BLOCK), 8),
            "w": ((self.blocks_out, self.blocks_in, self.kernel**2, BLOCK, BLOCK), 8),
            "y": ((self.blocks_out, self.out, self.out, BLOCK), 8 if self.alu else 32),
        }

    def reference(self, x: NDArray[np.generic], w: NDArray[np.generic]) -> NDArray[np.generic]:
        """Compute the program's result in numpy."""
        padded = np.pad(x.astype(np.int32), ((0, 0), (self.pad,) * 2, (self.pad,) * 2, (0, 0)))
        y = np.zeros(self.shapes()["y"][0], np.int64)
        end = (self.out - 1) * self.stride + 1
        for tap in range(self.kernel**2):
            dy, dx = divmod(tap, self.kernel)
            part = padded[:, dy : dy + end : self.stride, dx : dx + end : self.stride]
            y += np.einsum("chwi,ocji->ohwj", part, w[:, :, tap].astype(np.int64))
        return np.clip(y >> 8, 0, 127).astype(np.int8) if self.alu else y.astype(np.int32)


@dataclass(frozen=True)
class Tile:
    """A thread's tile of the output: its first row, column and channel block."""

    thread: int
    row: int
    column: int
    block: int


class ConvWriter:
    """Writer of a convolution in the form of VTA's schedule.

    The threads' tiles are in memory slots, and their instructions are interleaved. Tokens are
    inserted by VTA's rule: between the units of adjacent statements of each thread, so that a
    thread waits for its own last gemm before it loads.
    """

    def __init__(self, conv: Conv, *, tokens: bool = True):
        self.conv = conv
        self.tokens = tokens
        self.out = Writer("conv", conv.shapes())
        # The last padding rows and columns may not be read by any tap. For a strided 1x1
        # convolution, unused rows are not loaded.
        self.row_step = 1 if conv.kernel == 1 else conv.stride
        self.skipped = conv.stride // self.row_step
        self.rows_in = (conv.tile_h - 1) * self.row_step + conv.kernel
        self.columns_in = (conv.tile_w - 1) * conv.stride + conv.kernel
        self.inp_slot = conv.tile_ci * self.rows_in * self.columns_in
        self.wgt_slot = conv.tile_co * conv.tile_ci * conv.kernel**2
        self.acc_slot = conv.tile_co * conv.tile_h * conv.tile_w

    def write(self) -> ProgramOp:
        steps = self.steps()
        for number, tiles in enumerate(steps):
            self.reset(tiles, is_first=number == 0)
            for k in range(0, self.conv.blocks_in, self.conv.tile_ci):
                for tile in tiles:
                    self.load(tile, k)
                for tile in tiles:
                    is_last = k + self.conv.tile_ci >= self.conv.blocks_in
                    self.gemm(tile, is_last=is_last)
            for tile in tiles:
                self.store(tile)
        pops = [Unit.STORE] if self.tokens else []
        # Each thread's last store has sent a token, one of which finish itself consumes.
        for _ in steps[-1][:-1]:
            kernel = self.out.kernel(KernelKind.GEMM, [], [[], [], []], [(0, 0, 0)])
            self.out.add(GemmOp(kernel, reset=True), pops)
        self.out.add(FinishOp(), pops)
        return self.out.program()

    def steps(self) -> list[list[Tile]]:
        """Yield the tiles of all threads, step by step."""
        conv = self.conv
        found: list[list[Tile]] = []
        for row in range(0, conv.out, conv.tile_h * conv.h_threads):
            for block in range(0, conv.blocks_out, conv.tile_co * conv.oc_threads):
                for column in range(0, conv.out, conv.tile_w):
                    found.append(
                        [
                            Tile(
                                t,
                                row + (t % conv.h_threads) * conv.tile_h,
                                column,
                                block + (t // conv.h_threads) * conv.tile_co,
                            )
                            for t in range(conv.threads)
                        ]
                    )
        return found

    def add(self, op: StepOp, pops: Sequence[Unit] = (), pushes: Sequence[Unit] = ()) -> None:
        self.out.add(op, pops if self.tokens else (), pushes if self.tokens else ())

    def reset(self, tiles: list[Tile], *, is_first: bool) -> None:
        for tile in tiles:
            first = tile.thread * self.acc_slot
            kernel = self.out.kernel(
                KernelKind.GEMM, [self.acc_slot], [[1], [0], [0]], [(first, 0, 0)]
            )
            self.add(GemmOp(kernel, reset=True), [] if is_first else [Unit.STORE], [Unit.LOAD])

    def load(self, tile: Tile, k: int) -> None:
        conv = self.conv
        first_row = tile.row * conv.stride - conv.pad
        first_column = tile.column * conv.stride - conv.pad
        top, left = max(0, -first_row), max(0, -first_column)
        bottom = max(0, first_row + (self.rows_in - 1) * self.skipped + 1 - conv.size)
        right = max(0, first_column + self.columns_in - conv.size)
        rows, columns = self.rows_in - top - bottom, self.columns_in - left - right
        for n in range(conv.tile_ci):
            offset = ((k + n) * conv.size + first_row + top) * conv.size + first_column + left
            place = tile.thread * self.inp_slot + n * self.rows_in * self.columns_in
            # Consecutive unpadded rows are a single one.
            whole = columns == conv.size and not left and not right and self.skipped == 1
            shape = (1, rows * columns) if whole and not top and not bottom else (rows, columns)
            self.add(
                LoadOp(
                    Memory.INP,
                    place,
                    self.out.buffers["x"],
                    offset,
                    shape,
                    conv.size * self.skipped if shape[0] > 1 else None,
                    (top, bottom, left, right),
                ),
                [Unit.COMPUTE] if n == 0 else [],
            )
        taps = conv.kernel**2
        self.add(
            LoadOp(
                Memory.WGT,
                tile.thread * self.wgt_slot,
                self.out.buffers["w"],
                (tile.block * conv.blocks_in + k) * taps,
                (conv.tile_co, conv.tile_ci * taps),
                conv.blocks_in * taps,
            ),
            [],
            [Unit.COMPUTE],
        )

    def gemm(self, tile: Tile, *, is_last: bool) -> None:
        conv = self.conv
        t = tile.thread
        rows: list[tuple[int, int, int]] = []
        for tap in range(conv.kernel**2):
            dy, dx = divmod(tap, conv.kernel)
            for ci in range(conv.tile_ci):
                for co in range(conv.tile_co):
                    src = (ci * self.rows_in + dy) * self.columns_in + dx
                    wgt = (co * conv.tile_ci + ci) * conv.kernel**2 + tap
                    rows.append(
                        (
                            t * self.acc_slot + co * conv.tile_h * conv.tile_w,
                            t * self.inp_slot + src,
                            t * self.wgt_slot + wgt,
                        )
                    )
        kernel = self.out.kernel(
            KernelKind.GEMM,
            [conv.tile_h, conv.tile_w],
            [[conv.tile_w, 1], [self.row_step * self.columns_in, conv.stride], [0, 0]],
            rows,
        )
        pushes: list[Unit] = [Unit.LOAD]
        if is_last:
            pushes = [] if conv.alu else [Unit.STORE]
        self.add(GemmOp(kernel), [Unit.LOAD], pushes)
        if is_last and conv.alu:
            first = t * self.acc_slot
            over = self.out.kernel(KernelKind.ALU, [self.acc_slot], [[1], [1]], [(first, first)])
            self.add(AluOp(AluCode.SHR, over, 8))
            self.add(AluOp(AluCode.MAX, over, 0))
            self.add(AluOp(AluCode.MIN, over, 127), [], [Unit.STORE])

    def store(self, tile: Tile) -> None:
        conv = self.conv
        memory = Memory.OUT if conv.alu else Memory.ACC
        for co in range(conv.tile_co):
            shape = (conv.tile_h, conv.tile_w)
            if conv.tile_w == conv.out:
                shape = (1, conv.tile_h * conv.tile_w)
            offset = ((tile.block + co) * conv.out + tile.row) * conv.out + tile.column
            self.add(
                StoreOp(
                    memory,
                    tile.thread * self.acc_slot + co * conv.tile_h * conv.tile_w,
                    self.out.buffers["y"],
                    offset,
                    shape,
                    conv.out if shape[0] > 1 else None,
                ),
                [Unit.COMPUTE] if co == 0 else [],
                [Unit.COMPUTE] if co == conv.tile_co - 1 else [],
            )


PUBLISHED = [
    (Conv(256, 14, 512, 3, 2, 1, 7, 7, 1, 16, 2, 1, alu=True), 399_400),
    (Conv(512, 7, 512, 3, 1, 1, 7, 7, 1, 16, 2, 1, alu=True), 734_800),
    (Conv(128, 28, 256, 3, 2, 1, 14, 14, 1, 4, 2, 1, alu=True), 266_900),
    (Conv(256, 14, 256, 3, 1, 1, 14, 14, 1, 4, 2, 1, alu=True), 493_400),
    (Conv(64, 56, 128, 3, 2, 1, 7, 28, 1, 4, 2, 1, alu=True), 296_600),
    (Conv(128, 28, 128, 3, 1, 1, 14, 28, 1, 2, 1, 2, alu=True), 518_300),
    (Conv(64, 56, 64, 3, 1, 1, 8, 56, 1, 2, 2, 1, alu=True), 569_900),
    (Conv(64, 56, 128, 1, 2, 0, 7, 28, 1, 4, 1, 2, alu=True), 134_900),
    (Conv(128, 28, 256, 1, 2, 0, 7, 14, 1, 8, 2, 1, alu=True), 102_900),
    (Conv(256, 14, 512, 1, 2, 0, 7, 7, 1, 16, 2, 1, alu=True), 108_100),
]
"""TVM's published results for VTA on a Pynq board at 100 MHz, and the measured schedules: TopHub's
file vta_v0.10.log. Milliseconds, here as cycles."""
