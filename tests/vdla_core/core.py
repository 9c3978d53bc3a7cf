"""The complete core."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib.memory import Memory

from vdla_core.fetch import Queue, build_fetch
from vdla_core.fields import COMPUTE, INSTRUCTION, UNITS, WORD
from vdla_core.memories import Memories
from vdla_core.port import Port
from vdla_core.units import Tokens, build_unit


class Core(Elaboratable):
    """A core with external memory.

    Attributes:
        dram, program: external memory in words, and instructions; written by the user.
        count: number of instructions.
        ended, cycles: whether the program has ended, and in which cycle.

    Args:
        facts: parameters of the target; `latency` at least 2, `fill` at least `rewrite`.
        most_words, most_instructions: capacities of the memories.
    """

    def __init__(self, facts: dict[str, Any], most_words: int, most_instructions: int):
        assert facts["latency"] >= 2 and facts["fill"] >= facts["rewrite"]
        assert (facts["rows"], facts["block_out"], facts["block_in"]) == (1, 2, 2)
        assert facts["row_cycles"] == facts["port_cycles"] == 1 and facts["port_bytes"] == 2
        self.facts = facts
        self.ended, self.cycles, self.count = Signal(), Signal(32), Signal(16)
        self.dram = Memory(shape=WORD, depth=most_words, init=[])
        self.program = Memory(shape=INSTRUCTION, depth=most_instructions, init=[])

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.dram, m.submodules.program = self.dram, self.program
        m.d.sync += self.cycles.eq(Mux(self.ended, self.cycles, self.cycles + 1))
        port, tokens = Port(m, self.facts), Tokens(m)
        queues = [Queue(m, f"queue{unit}", self.facts["queue"]) for unit in UNITS]
        instructions = self.program.read_port(domain="comb")
        build_fetch(m, port, queues, instructions, self.count, self.facts)
        read, write = self.dram.read_port(domain="comb"), self.dram.write_port()
        memories = Memories(m, read, write, self.facts)
        ends = [
            build_unit(m, unit, queues[unit], port, tokens, memories, self.facts) for unit in UNITS
        ]
        m.d.comb += self.ended.eq(ends[COMPUTE])
        return m
