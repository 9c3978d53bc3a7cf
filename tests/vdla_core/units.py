"""A unit: it takes instructions from its queue, waits for tokens, and executes in order."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal

from vdla_core.arithmetic import Arithmetic
from vdla_core.fetch import Queue
from vdla_core.fields import COMPUTE, FINISH_OP, STORE_OP, UNITS, field
from vdla_core.memories import Memories, Transfer
from vdla_core.port import Port

_SIDES = (("prev", -1), ("next", 1))


class Tokens:
    """Token counters: load->compute, compute->load, compute->store, store->compute."""

    def __init__(self, m: Module):
        pairs = [(a, b) for a in UNITS for b in UNITS if abs(a - b) == 1]
        self.count = {pair: Signal(8, name="tokens_{}_{}".format(*pair)) for pair in pairs}
        self.sent = {pair: Signal(name="sent_{}_{}".format(*pair)) for pair in pairs}
        self.taken = {pair: Signal(name="taken_{}_{}".format(*pair)) for pair in pairs}
        for pair, count in self.count.items():
            m.d.sync += count.eq(count + self.sent[pair] - self.taken[pair])

    def connect(self, m: Module, unit: int, word: Any, start: Signal, done: Signal) -> Any:
        """Take and send the tokens of a unit's instruction; return whether all needed tokens were
        present."""
        there: Any = 1
        for side, step in _SIDES:
            other = unit + step
            if other in UNITS:
                pops, pushes = (field(word, "finish", f"{do}_{side}") for do in ("pop", "push"))
                there = there & (~pops | (self.count[other, unit] != 0))
                m.d.comb += self.taken[other, unit].eq(start & pops)
                m.d.comb += self.sent[unit, other].eq(done & pushes)
        return there


def build_unit(
    m: Module,
    unit: int,
    queue: Queue,
    port: Port,
    tokens: Tokens,
    memories: Memories,
    facts: dict[str, Any],
) -> Signal:
    """Build a unit; return the signal that it has executed the end of the program."""
    word, ended = queue.word, Signal(name=f"ended{unit}")
    start, wait = Signal(name=f"start{unit}"), Signal(16, name=f"wait{unit}")
    ready = ~queue.is_empty & tokens.connect(m, unit, word, start, queue.done)
    transfer = Transfer(memories, unit, word)
    m.d.comb += port.length[unit].eq(transfer.length)
    # The cycles after the last micro-op, in which the last sums arrive.
    drain = facts["rewrite"] - 1
    arithmetic = Arithmetic(memories, word, facts) if unit == COMPUTE else None
    with m.FSM(name=f"unit{unit}"):
        with m.State("IDLE"):
            if arithmetic is not None:
                with m.If(ready & (word[:3] == FINISH_OP)):
                    m.d.comb += [start.eq(1), queue.done.eq(1), ended.eq(1)]
                    m.next = "OVER"
                with m.Elif(ready & (word[:3] > STORE_OP)):
                    m.d.comb += start.eq(1)
                    m.d.sync += wait.eq(facts["fill"] - 1 - drain)
                    arithmetic.steps.begin()
                    m.next = "FILL"
            with m.If(ready & (word[:3] <= STORE_OP)):
                m.d.comb += [start.eq(1), port.ask[unit].eq(1)]
                m.next = "PORT"
                with m.If(port.grant[unit]):
                    transfer.begin()
                    m.next = "MOVE"
        with m.State("PORT"):
            m.d.comb += port.ask[unit].eq(1)
            with m.If(port.grant[unit]):
                transfer.begin()
                m.next = "MOVE"
        with m.State("MOVE"):
            # The previous cycle was that of a row.
            transfer.move()
            with m.If(transfer.is_end):
                m.d.sync += wait.eq(facts["latency"])
                m.next = "LATENCY"
            with m.Elif(transfer.is_row):
                m.next = "ROW"
        with m.State("ROW"):
            m.next = "MOVE"
        with m.State("LATENCY"):
            m.d.sync += wait.eq(wait - 1)
            with m.If(wait == 1):
                m.d.comb += queue.done.eq(1)
                m.next = "IDLE"
        if arithmetic is not None:
            with m.State("FILL"):
                with m.If(wait != 0):
                    m.d.sync += wait.eq(wait - 1)
                with m.Else():
                    with m.If(arithmetic.steps.is_step):
                        arithmetic.execute()
                    with m.If(arithmetic.steps.go_on()):
                        m.d.comb += queue.done.eq(drain == 0)
                        m.d.sync += wait.eq(drain)
                        m.next = "DRAIN" if drain else "IDLE"
            with m.State("DRAIN"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 1):
                    m.d.comb += queue.done.eq(1)
                    m.next = "IDLE"
            with m.State("OVER"):
                m.d.comb += ended.eq(1)
    return ended
