"""The simulator against a hardware core: results and cycles of random microprograms and of compiled
programs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from programs.accelerator_programs import (
    BYTES,
    CLIP,
    HALF_TO_EVEN,
    RESIDUAL,
    Conv,
    module_text,
    program_of,
)
from programs.vdla_microprograms import SMALL, arrays, microprogram, random_machine
from tcopt.backends.accelerator.check import check_program
from tcopt.backends.accelerator.code import code_for
from tcopt.backends.accelerator.simulator.timing import simulate
from tcopt.backends.vdla.encoding import encode
from tcopt.backends.vdla.stream import Alu, Gemm, Transfer, stream_of
from tcopt.compiler import Phase, lower
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.accelerator.reading import read_program
from tcopt.dialects.target import TARGET_ATTRIBUTE, VdlaTargetAttr
from tcopt.support.errors import VerificationError
from tcopt.support.pipelines.running import new_context
from tcopt.support.syntax.parsing import LocatedParser

pytest.importorskip("amaranth", reason="the core is hardware in Amaranth, which is not installed")

MACHINES = int(os.environ.get("TCOPT_RTL_MACHINES", "10"))
"""Number of random machines."""

EACH = 4
"""Number of random programs for each."""

_LONGEST, _WORDS, _INSTRUCTIONS = 20000, 2048, 128


class Bench:
    """A simulated core of a machine, which runs programs one after the other."""

    def __init__(self, target: VdlaTargetAttr):
        from amaranth.sim import Simulator

        from vdla_core import Core

        self.target = target
        self.core = Core(target.facts(), _WORDS, _INSTRUCTIONS)
        self.simulator = Simulator(self.core)
        self.simulator.add_clock(1e-6)
        self.simulator.add_testbench(self._watch)
        self.instructions: list[int] = []
        self.words: list[int] = []
        self.cycles, self.has_run = -1, False

    def run(self, program: ProgramOp, buffers: list[np.ndarray]) -> int:
        """Run a program on buffers, which it changes; return the cycle in which it ended."""
        encoded = encode(stream_of(program), self.target)
        places = [
            (address, array) for (_, address), array in zip(encoded.buffers, buffers, strict=True)
        ]
        image = bytearray(2 * -(-max(address + a.nbytes for address, a in places) // 2))
        image[: 4 * len(encoded.micro_ops)] = encoded.micro_ops.astype("<u4").tobytes()
        for address, array in places:
            image[address : address + array.nbytes] = array.tobytes()
        self.words = np.frombuffer(image, "<u2").tolist()
        halves = encoded.instructions.tolist()
        self.instructions = [int(low) | int(high) << 64 for low, high in halves]
        self.cycles = -1
        if self.has_run:
            self.simulator.reset()
        self.simulator.run()
        self.has_run = True
        image[:] = np.array(self.words, "<u2").tobytes()
        for address, array in places:
            read = np.frombuffer(bytes(image[address : address + array.nbytes]), array.dtype)
            array[...] = read.reshape(array.shape)
        assert self.cycles >= 0, "the core has not come to the end"
        return self.cycles

    async def _watch(self, ctx: Any) -> None:
        core = self.core
        assert len(self.words) <= _WORDS and len(self.instructions) <= _INSTRUCTIONS
        ctx.set(core.count, len(self.instructions))
        for memory, values in ((core.program, self.instructions), (core.dram, self.words)):
            for n, value in enumerate(values):
                ctx.set(memory.data[n], value)
        for _ in range(_LONGEST):
            if ctx.get(core.ended):
                self.cycles = ctx.get(core.cycles)
                break
            await ctx.tick()
        await ctx.tick().repeat(2)
        self.words = [ctx.get(core.dram.data[n]) for n in range(len(self.words))]


def check(bench: Bench, program: ProgramOp, buffers: list[np.ndarray]) -> list[np.ndarray]:
    """Run a program on both; return the results that they agree on."""
    target = bench.target
    read, _ = check_program(program, target)
    expected, found = ([array.copy() for array in buffers] for _ in range(2))
    code_for(program, target).run(expected)
    cycles = bench.run(program, found)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert cycles == simulate(read.machine, read.tasks).cycles
    return found


@pytest.mark.nightly(every=12)
@pytest.mark.parametrize("machine", range(MACHINES))
def test_a_core_agrees_on_results_and_cycles(machine: int) -> None:
    bench = Bench(random_machine(machine))
    for seed in range(EACH * machine, EACH * (machine + 1)):
        check(bench, microprogram(seed, bench.target), arrays(seed))


def test_random_programs_have_all_instructions() -> None:
    """Each instruction, in each form, is in some of the programs that always run."""
    found: set[object] = set()
    for seed in range(40):
        target = random_machine(seed // EACH)
        found |= {("channels", target.channels.data), target.arbitration.data}
        found.add(("rewrite", target.rewrite.data))
        for each in stream_of(microprogram(seed, target)).instructions:
            if isinstance(each, Transfer):
                found.add((str(each.memory), each.is_store))
                found |= {("pads", str(each.memory))} if any(each.pads) else set()
            elif isinstance(each, Alu):
                found.add((str(each.code), each.number is not None))
                is_left = each.number is not None and each.number < 0
                found |= {"left"} if is_left and str(each.code) == "shr" else set()
            elif isinstance(each, Gemm):
                found.add(("gemm", each.reset))
    codes = {(c, n) for c in ("min", "max", "add", "shr", "mulh") for n in (False, True)}
    loads = {(m, False) for m in ("uop", "inp", "wgt", "acc", "acc8")}
    pads = {("pads", m) for m in ("inp", "wgt", "acc", "acc8")}
    facts = {("channels", 1), ("channels", 2), "first-come", "priority"}
    facts |= {("rewrite", n) for n in (1, 2, 3)}
    rest = {("acc", True), ("out", True), ("gemm", True), ("gemm", False), "left"}
    assert found >= codes | loads | pads | facts | rest


def is_valid(program: ProgramOp, target: VdlaTargetAttr) -> bool:
    try:
        read_program(program, target)
    except VerificationError:
        return False
    return True


@pytest.mark.nightly
def test_registers_that_are_rewritten_too_soon_have_other_values() -> None:
    """The machine does not wait: a program that the proof rejects computes wrong results on the
    core."""
    quick = Bench(VdlaTargetAttr.of_facts(SMALL))
    slow = Bench(VdlaTargetAttr.of_facts({**SMALL, "rewrite": 3}))
    differ = 0
    for seed in range(4, 8):
        program = microprogram(seed, quick.target)
        right, wrong = arrays(seed), arrays(seed)
        assert quick.run(program, right) == slow.run(program, wrong)
        is_refused = not is_valid(program, slow.target)
        is_wrong = any((a != b).any() for a, b in zip(right, wrong, strict=True))
        assert is_refused or not is_wrong
        differ += is_wrong
    assert differ


LITTLE = {"inp_bytes": 64, "wgt_bytes": 64, "acc_bytes": 256, "uop_bytes": 512, "queue": 63}
COMPILED = {
    "sums": (Conv(5, 4, 2, 2, 3, pad=1, block=2), None, {}),
    "a step of two": (Conv(5, 5, 1, 2, 1, stride=2, block=2), None, {"channels": 2}),
    "bias, shift, limits": (Conv(4, 5, 2, 2, 3, pad=1, block=2), CLIP, {}),
    "half to even": (Conv(4, 4, 3, 2, 1, block=2), HALF_TO_EVEN, {"arbitration": "priority"}),
    "a residual": (Conv(5, 4, 1, 2, 3, pad=1, block=2), RESIDUAL, {"channels": 2, "alu_reg": 2}),
    "registers apart": (Conv(4, 4, 2, 2, 3, pad=1, block=2), CLIP, {"rewrite": 2}),
}


@pytest.mark.nightly(daily=["a residual"])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_programs(name: str) -> None:
    """Convolutions in several tiles, with ALU epilogues."""
    conv, steps, facts = COMPILED[name]
    target = VdlaTargetAttr.of_facts({**SMALL, **LITTLE, **facts})
    if steps is None:
        module = conv.module(target)
    else:
        text = module_text(conv, steps + BYTES, "%q")
        module = LocatedParser(new_context(), text, name).parse_module()
        module.attributes[TARGET_ATTRIBUTE] = target
    program = program_of(module)
    lower(module, [Phase("tokens", "order-units,accelerator-check")])
    rng = np.random.default_rng(0)
    buffers = [
        rng.integers(-128, 128, buffer.shape).astype(np.int8 if buffer.bits == 8 else np.int32)
        for buffer in stream_of(program).buffers
    ]
    found = check(Bench(target), program, buffers)
    if steps is None:
        expected = conv.expected(
            *(a.reshape(s) for a, s in zip(buffers[:2], conv.shapes[:2], strict=True))
        )
        np.testing.assert_array_equal(found[-1].reshape(expected.shape), expected)
