"""Results of the simulated machine, against scalar loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.vdla_programs import Conv, ConvWriter, Writer
from running.examples import examples
from tcopt.backends.accelerator.code import code_for
from tcopt.backends.vdla.machines import MACHINES
from tcopt.backends.vdla.simulator.function import Machine, run_stream
from tcopt.backends.vdla.source import stream_for
from tcopt.backends.vdla.stream import stream_of
from tcopt.dialects.accelerator import FinishOp, ProgramOp
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import (
    AluCode,
    AluOp,
    GemmOp,
    KernelKind,
    LoadOp,
    Memory,
    StoreOp,
)
from tcopt.support.errors import InputError, VerificationError

VTA = MACHINES["vta"]

SMALL = VdlaTargetAttr.of_facts(
    {
        "rows": 2, "block_in": 3, "block_out": 4, "features": "alu,mulh,load_i8",
        "results": "i8,i32", "inp_bytes": 2 * 3 * 16, "wgt_bytes": 4 * 3 * 8,
        "acc_bytes": 4 * 2 * 4 * 16, "uop_bytes": 4 * 16,
    }
)  # fmt: skip
"""A machine with a non-square unit and memories of a few entries."""

CONVS = [
    Conv(32, 8, 64, 3, 1, 1, 4, 8, oc_threads=2, tile_co=2),
    Conv(32, 8, 32, 3, 1, 1, 4, 4, tile_ci=2, h_threads=2, alu=True),
    Conv(16, 9, 32, 3, 2, 1, 5, 5),
    Conv(32, 8, 64, 1, 2, 0, 2, 4, tile_ci=2, tile_co=2, oc_threads=2),
]


@pytest.mark.parametrize("conv", CONVS, ids=str)
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_convolutions_are_numpys_in_any_order(conv: Conv, seed: int | None) -> None:
    """In stream order, and in orders restricted only by tokens."""
    machine = MACHINES["vta" if conv.alu else "vdla"]
    x, w, y = conv.arrays(seed or 0)
    code_for(ConvWriter(conv).write(), machine).run([x, w, y], seed)
    np.testing.assert_array_equal(y, conv.reference(x, w))


def wrap(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def scalar_alu(code: AluCode, left: int, right: int) -> int:
    if code is AluCode.SHR:
        return wrap(left >> right if right >= 0 else left << -right)
    if code is AluCode.MULH:
        return min((left * right + (1 << 30)) >> 31, (1 << 31) - 1)
    return wrap({"min": min, "max": max, "add": lambda a, b: a + b}[code](left, right))


def scalar(program: ProgramOp, sram: dict[Memory, Any]) -> None:
    """Execute the semantics of gemm and alu stated in docs/vdla.md, step by step."""
    acc, inp, wgt = sram[Memory.ACC], sram[Memory.INP], sram[Memory.WGT]
    for op in program.steps:
        if not isinstance(op, GemmOp | AluOp):
            continue
        kernel = op.body
        loops = (1, 1, *kernel.extents)[-2:]
        steps = [(0, 0, *each)[-2:] for each in kernel.steps]
        for i in range(loops[0]):
            for j in range(loops[1]):
                for row in kernel.rows:
                    dst, src, *weight = (
                        n + i * o + j * k for n, (o, k) in zip(row, steps, strict=True)
                    )
                    for lane in np.ndindex(*acc.shape[1:]):
                        at = (dst, *lane)
                        if isinstance(op, AluOp):
                            right = op.number if op.number is not None else int(acc[(src, *lane)])
                            acc[at] = scalar_alu(op.code.data, int(acc[at]), right)
                        elif op.is_reset:
                            acc[at] = 0
                        else:
                            products = inp[src][lane[0]].astype(int) * wgt[weight[0]][lane[1]]
                            acc[at] = wrap(int(acc[at]) + int(products.sum()))


@st.composite
def kernels(draw: st.DrawFn, kind: KernelKind) -> tuple[list[int], list[list[int]], list[Any]]:
    """Loops, factors and micro-ops within the memories of `SMALL`."""
    loops = draw(st.lists(st.integers(1, 3), max_size=2))
    fields = (("dst", 16), ("src", 16), ("wgt", 8))[: 3 if kind is KernelKind.GEMM else 2]
    factors: list[list[int]] = []
    bases: list[int] = []
    for _, size in fields:
        factors.append([draw(st.integers(0, 2)) for _ in loops])
        reach = sum(f * (n - 1) for f, n in zip(factors[-1], loops, strict=True))
        bases.append(size - 1 - reach)
    rows = draw(
        st.lists(st.tuples(*(st.integers(0, base) for base in bases)), min_size=1, max_size=4)
    )
    return loops, factors, rows


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_gemm_and_alu_are_their_definition(data: st.DataObject) -> None:
    """Registers that several steps of an instruction write, or read after others wrote them."""
    writer = Writer("random", {})
    for _ in range(data.draw(st.integers(1, 3))):
        kind = data.draw(st.sampled_from(list(KernelKind)))
        kernel = writer.kernel(kind, *data.draw(kernels(kind)))
        if kind is KernelKind.GEMM:
            writer.add(GemmOp(kernel, reset=data.draw(st.integers(0, 4)) == 0))
            continue
        code = data.draw(st.sampled_from(list(AluCode)))
        most = 31 if code is AluCode.SHR else 1 << 14
        # Registers hold any value, but few are valid shift amounts.
        operand = data.draw(
            st.integers(-most, most)
            if code is AluCode.SHR
            else st.none() | st.integers(-most, most)
        )
        writer.add(AluOp(code, kernel, operand))
    writer.add(FinishOp())
    program = writer.program()
    if writer.next_place > 16:
        return
    stream = stream_for(program, SMALL)
    machine = Machine(stream, SMALL, [])
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for memory in (Memory.INP, Memory.WGT, Memory.ACC):
        array = machine.sram[memory]
        info = np.iinfo(array.dtype)
        array[...] = rng.integers(info.min, info.max, array.shape, array.dtype, endpoint=True)
        machine.written[memory][...] = True
    expected = {memory: array.copy() for memory, array in machine.sram.items()}
    scalar(program, expected)
    machine.run(range(len(stream.instructions)))
    for memory, array in machine.sram.items():
        if memory is not Memory.UOP:
            np.testing.assert_array_equal(array, expected[memory])


def test_sums_of_many_products_are_exact() -> None:
    """More extreme products for one register than f32 represents exactly."""
    writer = Writer("deep", {"x": ((1, 16), 8), "w": ((1, 256), 8), "y": ((1, 16), 32)})
    writer.add(LoadOp(Memory.INP, 0, writer.buffers["x"], 0, (1, 1)))
    writer.add(LoadOp(Memory.WGT, 0, writer.buffers["w"], 0, (1, 1)))
    kernel = writer.kernel(KernelKind.GEMM, [100, 93], [[0, 0], [0, 0], [0, 0]], [(0, 0, 0)])
    writer.add(GemmOp(kernel, reset=True))
    writer.add(GemmOp(kernel))
    writer.add(StoreOp(Memory.ACC, 0, writer.buffers["y"], 0, (1, 1)))
    writer.add(FinishOp())
    x, w = np.full((1, 16), -128, np.int8), np.full((1, 256), -128, np.int8)
    w[0, :16] = 127
    y = np.zeros((1, 16), np.int32)
    code_for(writer.program(), MACHINES["vdla"]).run([x, w, y])
    wanted = [wrap(9300 * 16 * -128 * factor) for factor in [127] + 15 * [-128]]
    assert y[0].tolist() == wanted


def test_stores_of_bytes_drop_the_high_ones() -> None:
    writer = Writer("narrow", {"x": ((1, 16), 32), "r": ((1, 16), 8), "y": ((2, 16), 8)})
    writer.add(LoadOp(Memory.ACC, 0, writer.buffers["x"], 0, (1, 1)))
    writer.add(LoadOp(Memory.ACC8, 1, writer.buffers["r"], 0, (1, 1)))
    writer.add(StoreOp(Memory.OUT, 0, writer.buffers["y"], 0, (1, 2)))
    writer.add(FinishOp())
    rng = np.random.default_rng(0)
    x = rng.integers(-(1 << 31), 1 << 31, (1, 16), np.int32)
    r = rng.integers(-128, 128, (1, 16), np.int8)
    y = np.zeros((2, 16), np.int8)
    code_for(writer.program(), VTA).run([x, r, y])
    np.testing.assert_array_equal(y, np.concatenate([x.astype(np.int8), r]))


def program_with(*ops: Any) -> ProgramOp:
    writer = Writer("p", {"x": ((4, 16), 8), "b": ((4, 16), 32)})
    for make in ops:
        made = make(writer)
        writer.add(made)
    writer.add(FinishOp())
    return writer.program()


def load_inp(place: int, offset: int = 0, columns: int = 4):
    return lambda w: LoadOp(Memory.INP, place, w.buffers["x"], offset, (1, columns))


def gemm(rows: list[tuple[int, int, int]], *, reset: bool = False):
    return lambda w: GemmOp(w.kernel(KernelKind.GEMM, [], [[], [], []], rows), reset=reset)


FAULTS = {
    "beyond the memory": ([load_inp(2046)], "entries 2046 to 2049 of inp, which has 2048"),
    "beyond the buffer": ([load_inp(0, 1)], "entries 1 to 4 of memory that has 4"),
    "poisoned register": ([gemm([(5, 0, 0)])], "entry 5 of acc is read, but nothing has written"),
    "poisoned input": (
        [gemm([(0, 0, 0)], reset=True), gemm([(0, 0, 0)])],
        "entry 0 of inp is read, but nothing has written",
    ),
    "poisoned store": (
        [lambda w: StoreOp(Memory.ACC, 7, w.buffers["b"], 0, (1, 1))],
        "entry 7 of acc is read, but nothing has written",
    ),
    "register that is not there": ([gemm([(2047, 0, 127)], reset=True), gemm([(2047, 0, 128)])],
                                   "entries 0 to 128 of wgt, which has 128"),
}  # fmt: skip


@pytest.mark.parametrize(("ops", "message"), FAULTS.values(), ids=FAULTS)
def test_places_that_are_not_there_or_not_written_are_errors(ops: list[Any], message: str) -> None:
    """The error names the op and the instruction."""
    stream = stream_of(program_with(*ops))
    buffers = [np.zeros((4, 16), np.int8), np.zeros((4, 16), np.int32)]
    with pytest.raises(VerificationError, match=message) as raised:
        run_stream(stream, MACHINES["vdla"], buffers)
    assert "'vdla." in str(raised.value) and "at step" in str(raised.value)


def test_shifts_by_registers_are_bounded() -> None:
    writer = Writer("p", {"b": ((4, 16), 32)})
    writer.add(LoadOp(Memory.ACC, 0, writer.buffers["b"], 0, (1, 4)))
    kernel = writer.kernel(KernelKind.ALU, [], [[], []], [(0, 1)])
    writer.add(AluOp(AluCode.SHR, kernel))
    writer.add(FinishOp())
    with pytest.raises(VerificationError, match="a shift of more than 31 bits"):
        code_for(writer.program(), VTA).run([np.full((4, 16), 32, np.int32)])


def test_registers_that_are_written_again_too_soon() -> None:
    """A machine that does not forward sums needs another micro-op in between."""
    pynq = MACHINES["pynq"]
    stream = stream_of(program_with(gemm([(0, 0, 0)] * 2, reset=True), gemm([(0, 0, 0)] * 2)))
    buffers = [np.zeros((4, 16), np.int8), np.zeros((4, 16), np.int32)]
    with pytest.raises(VerificationError, match="register 0 is written again after 1 micro-ops"):
        run_stream(stream, pynq, buffers)


@pytest.mark.parametrize(
    "buffers",
    [
        [np.zeros((4, 16), np.int8)],
        [np.zeros((4, 16), np.uint8), np.zeros((4, 16), np.int32)],
        [np.zeros((4, 8), np.int8), np.zeros((4, 16), np.int32)],
        [np.zeros((8, 16), np.int8)[::2], np.zeros((4, 16), np.int32)],
    ],
    ids=["number", "type", "shape", "gaps"],
)
def test_buffers_are_those_of_the_program(buffers: list[Any]) -> None:
    with pytest.raises(InputError):
        code_for(program_with(), VTA).run(buffers)


def test_without_tokens_some_order_gives_other_results() -> None:
    """Checks random orders: a program without tokens is correct only in its own order."""
    conv = CONVS[0]
    code = code_for(ConvWriter(conv, tokens=False).write(), MACHINES["vdla"])
    right = 0
    for seed in [None, *range(6)]:
        x, w, y = conv.arrays()
        try:
            code.run([x, w, y], seed)
        except VerificationError:
            continue
        right += bool((y == conv.reference(x, w)).all())
        assert seed is not None or right
    assert right < 4
