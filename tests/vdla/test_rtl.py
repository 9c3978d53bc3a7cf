"""The simulator against a core as hardware: results and cycles of random microprograms."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tcopt.backends.accelerator.simulator.timing import simulate
from tcopt.backends.vdla.encoding import encode
from tcopt.backends.vdla.simulator.function import run_stream
from tcopt.backends.vdla.source import programs_of
from tcopt.dialects.target import TARGET_ATTRIBUTE, VdlaTargetAttr
from tcopt.dialects.vdla.stream import Stream, stream_of
from tcopt.dialects.vdla.tasks.reading import machine_of, tasks_of
from tcopt.passes.vdla.insert_tokens import InsertTokensPass
from tcopt.support.parsing import LocatedParser
from tcopt.tools.passes.driver import new_context

pytest.importorskip("amaranth", reason="the core is hardware in Amaranth, which is not installed")

PROGRAMS = 20
_LONGEST = 6000
SMALL = {
    "rows": 1, "block_in": 2, "block_out": 2, "results": "i32,i8", "port_bytes": 2, "latency": 5,
    "fill": 3, "inp_bytes": 32, "wgt_bytes": 32, "acc_bytes": 64, "uop_bytes": 64,
}  # fmt: skip


def kernel(numbers: random.Random, at: int, name: str) -> str:
    """A gemm of at most 8 registers, 16 inputs and 8 weights, in two loops."""
    loops = [numbers.randint(1, 3), numbers.randint(1, 3)]
    steps = [[numbers.randint(0, 1) for _ in loops] for _ in range(3)]
    most = [sum((n - 1) * s for n, s in zip(loops, each, strict=True)) for each in steps]
    ends = (8, 16, 8)
    uops = [
        [numbers.randint(0, end - 1 - moved) for end, moved in zip(ends, most, strict=True)]
        for _ in range(2)
    ]
    rows = "\n".join(f"uop {', '.join(map(str, uop))}" for uop in uops)
    fields = " ".join(f"{f} {s}" for f, s in zip(("dst", "src", "wgt"), steps, strict=True))
    return f"%{name} = vdla.kernel gemm at {at} {loops} {fields} {{\n{rows}\n}}"


def microprogram(seed: int, target: VdlaTargetAttr) -> Stream:
    """Loads, products and stores in a random order, with the tokens that they need."""
    numbers = random.Random(seed)
    all_ = "%all = vdla.kernel gemm at 0 [8] dst [1] src [0] wgt [0] {\nuop 0, 0, 0\n}"
    kernels = [all_, *(kernel(numbers, 1 + 2 * n, f"k{n}") for n in range(3))]
    steps = [
        "vdla.load_uops %all, %k0, %k1, %k2",
        "vdla.load inp 0, %x[0] : 1x16",
        "vdla.load wgt 0, %w[0] : 1x8",
        "vdla.gemm reset %all",
    ]
    for number in range(numbers.randint(4, 9)):
        rows, columns = numbers.randint(1, 2), numbers.randint(1, 3)
        shape = f"{rows}x{columns} stride {columns + 1}" if rows > 1 else f"1x{columns}"
        place = numbers.randint(0, 2)
        steps.append(
            numbers.choice(
                [
                    f"vdla.load inp {numbers.randint(0, 8)}, %x[{place}] : {shape}",
                    f"vdla.load wgt {place}, %w[0] : 1x{columns}",
                    f"vdla.load acc {place}, %a[{place}] : {shape}",
                    f"vdla.gemm %k{numbers.randint(0, 2)}",
                    f"vdla.gemm %k{numbers.randint(0, 2)}",
                    f"vdla.store acc {place}, %y[{8 * number}] : {shape}",
                    f"vdla.store out {place}, %z[{8 * number}] : {shape}",
                ]
            )
        )
    steps += ["vdla.store acc 0, %y[72] : 1x8", "vdla.finish"]
    text = "\n".join([*kernels, *steps])
    buffers = "%x: memref<16x2xi8>, %w: memref<8x4xi8>, %a: memref<12x2xi32>"
    text = f"vdla.program @p({buffers}, %y: memref<80x2xi32>, %z: memref<80x2xi8>) {{\n{text}\n}}"
    module = LocatedParser(new_context(), text, "program").parse_module()
    module.attributes[TARGET_ATTRIBUTE] = target
    InsertTokensPass().apply(new_context(), module)
    (program,) = programs_of(module)
    return stream_of(program)


def arrays(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    x, w = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 2), (8, 4)))
    a = rng.integers(-(2**31), 2**31, (12, 2)).astype(np.int32)
    return [x, w, a, np.zeros((80, 2), np.int32), np.zeros((80, 2), np.int8)]


def run_core(stream: Stream, target: VdlaTargetAttr, buffers: list[np.ndarray]) -> int:
    """Run the hardware on buffers, which it changes; the cycle in which the program was over."""
    from amaranth.sim import Simulator

    from vdla_core import Core

    encoded = encode(stream, target)
    image = bytearray(4096)
    image[: 4 * len(encoded.micro_ops)] = encoded.micro_ops.astype("<u4").tobytes()
    for (_, address), array in zip(encoded.buffers, buffers, strict=True):
        image[address : address + array.nbytes] = array.tobytes()
    words = np.frombuffer(image, "<u2").tolist()
    instructions = [int(low) | int(high) << 64 for low, high in encoded.instructions.tolist()]
    core = Core(instructions, words, target.facts())
    found: list[int] = []

    async def watch(ctx: Any) -> None:
        for _ in range(_LONGEST):
            if ctx.get(core.ended):
                found.append(ctx.get(core.cycles))
                break
            await ctx.tick()
        await ctx.tick().repeat(2)
        memory = [ctx.get(core.dram.data[n]) for n in range(len(words))]
        image[:] = np.array(memory, "<u2").tobytes()

    simulator = Simulator(core)
    simulator.add_clock(1e-6)
    simulator.add_testbench(watch)
    simulator.run()
    for (_, address), array in zip(encoded.buffers, buffers, strict=True):
        read = np.frombuffer(bytes(image[address : address + array.nbytes]), array.dtype)
        array[...] = read.reshape(array.shape)
    assert found, "the core has not come to the end"
    return found[0]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_core_agrees_on_results_and_cycles(seed: int) -> None:
    facts = {"fetch": 2 + seed % 3, "latency": 2 + seed % 7, "fill": 1 + seed % 5}
    target = VdlaTargetAttr.of_facts({**SMALL, **facts})
    stream = microprogram(seed, target)
    tasks, faults = tasks_of(stream, target)
    assert not faults
    expected, found = arrays(seed), arrays(seed)
    run_stream(stream, target, expected)
    cycles = run_core(stream, target, found)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert cycles == simulate(machine_of(target, stream), tasks).cycles
