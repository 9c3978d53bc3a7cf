"""A core of the VDLA as hardware: fetch, a load, a compute and a store unit, token counters, and a
port that is given to who asked first. It executes encoded instructions.

It is one of a small machine: a port of 16 bits, one cycle for a row, a matrix unit of 2 x 2;
it has no alu and no pads, and its queues of instructions are never full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib.memory import Memory

from tcopt.backends.vdla.fields import LAYOUTS

LOAD, COMPUTE, STORE = range(3)
FETCH = 3
WORD = 16
_QUEUE = 64
_WORDS = {0: 2, 1: 2, 2: 1, 3: 4, 4: 1}
"""Words of an entry, by the number of its memory."""


def field(word: Any, kind: str, name: str) -> Any:
    """The bits of a field of an instruction."""
    at = 0
    for each, width in LAYOUTS[kind]:
        if each == name:
            return word[at : at + width]
        at += width
    raise KeyError(name)


class Core(Elaboratable):
    """A core with a program and its memory.

    Attributes:
        ended, cycles: whether the program is over, and when it was.
        dram: memory, in words.
    """

    def __init__(self, instructions: Sequence[int], words: Sequence[int], facts: dict[str, Any]):
        self.facts = facts
        self.program = Array([Const(each, 128) for each in instructions])
        self.count = len(instructions)
        self.ended, self.cycles = Signal(), Signal(32)
        self.dram = Memory(shape=WORD, depth=len(words), init=words)
        self.uop = Array([Signal(32, name=f"uop{n}") for n in range(16)])
        self.wgt = Array([Signal(32, name=f"wgt{n}") for n in range(8)])
        self.inp = Array([Signal(16, name=f"inp{n}") for n in range(16)])
        self.acc = Array([Signal(64, name=f"acc{n}") for n in range(8)])

    def elaborate(self, platform: Any) -> Module:
        m = self.m = Module()
        m.submodules.dram = self.dram
        self.read, self.write = self.dram.read_port(domain="comb"), self.dram.write_port()
        m.d.sync += self.cycles.eq(Mux(self.ended, self.cycles, self.cycles + 1))
        # Tokens: load->compute, compute->load, compute->store, store->compute.
        self.tokens = {
            (a, b): Signal(8, name=f"tokens_{a}_{b}")
            for a, b in ((LOAD, COMPUTE), (COMPUTE, LOAD), (COMPUTE, STORE), (STORE, COMPUTE))
        }
        self.sent = {pair: Signal(name=f"sent_{pair}") for pair in self.tokens}
        self.taken = {pair: Signal(name=f"taken_{pair}") for pair in self.tokens}
        for pair, count in self.tokens.items():
            m.d.sync += count.eq(count + self.sent[pair] - self.taken[pair])
        self._port()
        self._fetch()
        for unit in (LOAD, COMPUTE, STORE):
            self._unit(unit)
        return m

    def _port(self) -> None:
        """Who has waited longest gets it; in the same cycle fetch before load, compute, store."""
        m = self.m
        self.ask = [Signal(name=f"ask{n}") for n in range(4)]
        self.grant = [Signal(name=f"grant{n}") for n in range(4)]
        self.length = [Signal(16, name=f"length{n}") for n in range(4)]
        age = [Signal(16, name=f"age{n}") for n in range(4)]
        busy = Signal(16)
        with m.If(busy != 0):
            m.d.sync += busy.eq(busy - 1)
        order = (FETCH, LOAD, COMPUTE, STORE)
        for place, who in enumerate(order):
            beaten = Const(0, 1)
            for other_place, other in enumerate(order):
                if other != who:
                    older = age[other] > age[who]
                    first = (age[other] == age[who]) if other_place < place else Const(0, 1)
                    beaten = beaten | (self.ask[other] & (older | first))
            m.d.comb += self.grant[who].eq(self.ask[who] & (busy == 0) & ~beaten)
            waits = self.ask[who] & ~self.grant[who]
            m.d.sync += age[who].eq(Mux(waits, age[who] + 1, 0))
            with m.If(self.grant[who]):
                m.d.sync += busy.eq(self.length[who] - 1)

    def _fetch(self) -> None:
        m, burst, latency = self.m, self.facts["fetch"], self.facts["latency"]
        cycles = 1 + burst * 16 * 8 // WORD
        self.queues = [Array([Signal(128) for _ in range(_QUEUE)]) for _ in range(3)]
        self.tails = [Signal(8, name=f"tail{n}") for n in range(3)]
        number, left, wait = Signal(16), Signal(16), Signal(16)
        m.d.comb += self.length[FETCH].eq(cycles)
        word = self.program[number]
        opcode, memory = word[:3], field(word, "transfer", "memory")
        unit = Signal(2)
        m.d.comb += unit.eq(COMPUTE)
        with m.If((opcode == 0) & ((memory == 1) | (memory == 2))):
            m.d.comb += unit.eq(LOAD)
        with m.Elif(opcode == 1):
            m.d.comb += unit.eq(STORE)
        with m.FSM(name="fetch"):
            with m.State("ASK"):
                with m.If(number < self.count):
                    m.d.comb += self.ask[FETCH].eq(1)
                with m.If(self.grant[FETCH]):
                    m.d.sync += [wait.eq(cycles + latency - 2), left.eq(burst)]
                    m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(wait != 0):
                    m.d.sync += wait.eq(wait - 1)
                with m.Else():
                    for n in range(3):
                        with m.If(unit == n):
                            m.d.sync += self.queues[n][self.tails[n]].eq(word)
                            m.d.sync += self.tails[n].eq(self.tails[n] + 1)
                    m.d.sync += [number.eq(number + 1), left.eq(left - 1)]
                    with m.If((left == 1) | (number + 1 == self.count)):
                        m.next = "GAP"
            with m.State("GAP"):
                m.next = "ASK"

    def _unit(self, unit: int) -> None:
        m = self.m
        head, word = Signal(8, name=f"head{unit}"), Signal(128, name=f"word{unit}")
        m.d.comb += word.eq(self.queues[unit][head])
        ready, done = Signal(name=f"ready{unit}"), Signal(name=f"done{unit}")
        flags = {
            name: field(word, "finish", name)
            for name in ("pop_prev", "pop_next", "push_prev", "push_next")
        }
        there = head != self.tails[unit]
        for side, other in (("prev", unit - 1), ("next", unit + 1)):
            if other in (LOAD, COMPUTE, STORE):
                there = there & (~flags[f"pop_{side}"] | (self.tokens[other, unit] != 0))
        m.d.comb += ready.eq(there)
        start = Signal(name=f"start{unit}")
        for side, other in (("prev", unit - 1), ("next", unit + 1)):
            if other in (LOAD, COMPUTE, STORE):
                m.d.comb += self.taken[other, unit].eq(start & flags[f"pop_{side}"])
                m.d.comb += self.sent[unit, other].eq(done & flags[f"push_{side}"])
        with m.If(done):
            m.d.sync += head.eq(head + 1)
        is_transfer = word[:3] <= 1
        row, at, wait = (Signal(16, name=f"{name}{unit}") for name in ("row", "at", "wait"))
        size = Signal(4, name=f"size{unit}")
        memory = field(word, "transfer", "memory")
        for number, words in _WORDS.items():
            with m.If(memory == number):
                m.d.comb += size.eq(words)
        rows, columns, stride = (
            field(word, "transfer", name) for name in ("rows", "columns", "stride")
        )
        width = Signal(16, name=f"width{unit}")
        m.d.comb += [width.eq(columns * size), self.length[unit].eq(rows * (1 + width))]
        steps = Steps(m, word, unit) if unit == COMPUTE else None
        with m.FSM(name=f"unit{unit}"):
            with m.State("IDLE"):
                with m.If(ready & (word[:3] == 3)):
                    m.d.comb += [start.eq(1), done.eq(1)]
                    m.d.comb += self.ended.eq(1) if unit == COMPUTE else []
                    m.next = "OVER"
                with m.Elif(ready & is_transfer):
                    m.d.comb += start.eq(1)
                    m.d.comb += self.ask[unit].eq(1)
                    m.d.sync += [row.eq(0), at.eq(0)]
                    m.next = "PORT"
                    with m.If(self.grant[unit]):
                        m.next = "MOVE"
                with m.Elif(ready):
                    m.d.comb += start.eq(1)
                    m.d.sync += wait.eq(self.facts["fill"] - 1)
                    if steps is not None:
                        steps.begin()
                    m.next = "FILL"
            with m.State("PORT"):
                m.d.comb += self.ask[unit].eq(1)
                with m.If(self.grant[unit]):
                    m.next = "MOVE"
            with m.State("MOVE"):
                # The cycle of a row has been the one before.
                self._move(unit, word, row, at, size, width, stride)
                m.d.sync += at.eq(at + 1)
                with m.If(at + 1 == width):
                    m.d.sync += [at.eq(0), row.eq(row + 1)]
                    m.next = "ROW"
                    with m.If(row + 1 == rows):
                        m.d.sync += wait.eq(self.facts["latency"])
                        m.next = "LATENCY"
            with m.State("ROW"):
                m.next = "MOVE"
            with m.State("LATENCY"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 1):
                    m.d.comb += done.eq(1)
                    m.next = "IDLE"
            with m.State("FILL"):
                with m.If(wait != 0):
                    m.d.sync += wait.eq(wait - 1)
                with m.Elif(Const(1, 1) if steps is not None else Const(0, 1)):
                    if steps is not None:
                        self._multiply(word, steps)
                        with m.If(steps.step()):
                            m.d.comb += done.eq(1)
                            m.next = "IDLE"
            with m.State("OVER"):
                m.d.comb += self.ended.eq(1) if unit == COMPUTE else []

    def _move(
        self, unit: int, word: Any, row: Any, at: Any, size: Any, width: Any, stride: Any
    ) -> None:
        """Move a word between memory and an entry."""
        m = self.m
        memory = field(word, "transfer", "memory")
        dram, sram = field(word, "transfer", "dram"), field(word, "transfer", "sram")
        place = (dram + row * stride) * size + at
        flat = row * width + at
        if unit == STORE:
            entry = self.acc[sram + Mux(memory == 3, flat >> 2, flat)]
            lane = Cat(entry[0:8], entry[32:40])
            m.d.comb += [self.write.en.eq(1), self.write.addr.eq(place)]
            whole = entry.word_select(flat[:2], WORD)
            m.d.comb += self.write.data.eq(Mux(memory == 3, whole, lane))
            return
        m.d.comb += self.read.addr.eq(place)
        data = self.read.data
        for number, cells, bits in (
            (0, self.uop, 1), (1, self.wgt, 1), (2, self.inp, 0), (3, self.acc, 2),
        ):  # fmt: skip
            if (unit == LOAD) == (number in (1, 2)):
                with m.If(memory == number):
                    cell = cells[sram + (flat >> bits)]
                    if bits:
                        m.d.sync += cell.word_select(flat[:bits], WORD).eq(data)
                    else:
                        m.d.sync += cell.eq(data)

    def _multiply(self, word: Any, steps: Steps) -> None:
        """One micro-op: a row of two bytes by 2 x 2 others, added to two sums."""
        m = self.m
        uop = self.uop[steps.uop]
        dst, src, wgt = (field(uop, "micro_op", name) for name in ("dst", "src", "wgt"))
        d = (dst + steps.moved("dst"))[:3]
        acc = self.acc[d]
        data = self.inp[(src + steps.moved("src"))[:4]]
        weights = self.wgt[(wgt + steps.moved("wgt"))[:3]]
        sums = []
        for lane in range(2):
            total = acc.word_select(lane, 32).as_signed()
            for i in range(2):
                factor = weights.word_select(2 * lane + i, 8).as_signed()
                total = total + data.word_select(i, 8).as_signed() * factor
            sums.append(total[:32])
        m.d.sync += acc.eq(Mux(field(word, "gemm", "reset"), 0, Cat(*sums)))


class Steps:
    """Two hardware loops around micro-ops."""

    def __init__(self, m: Module, word: Any, unit: int):
        self.m, self.word = m, word
        self.outer, self.inner, self.uop = Signal(14), Signal(14), Signal(14)

    def begin(self) -> None:
        first = field(self.word, "gemm", "uop_begin")
        self.m.d.sync += [self.outer.eq(0), self.inner.eq(0), self.uop.eq(first)]

    def moved(self, name: str) -> Any:
        """How far a field has moved."""
        return self.outer * field(self.word, "gemm", f"{name}_out") + self.inner * field(
            self.word, "gemm", f"{name}_in"
        )

    def step(self) -> Any:
        """Go on; whether this was the last step."""
        m, word = self.m, self.word
        begin, end = field(word, "gemm", "uop_begin"), field(word, "gemm", "uop_end")
        loop_out, loop_in = field(word, "gemm", "loop_out"), field(word, "gemm", "loop_in")
        last_uop = self.uop + 1 == end
        last_in = self.inner + 1 == loop_in
        m.d.sync += self.uop.eq(Mux(last_uop, begin, self.uop + 1))
        with m.If(last_uop):
            m.d.sync += self.inner.eq(Mux(last_in, 0, self.inner + 1))
            with m.If(last_in):
                m.d.sync += self.outer.eq(self.outer + 1)
        return last_uop & last_in & (self.outer + 1 == loop_out)
