"""Fetch: bursts of instructions, passed to the queues of the units."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib.memory import Memory

from vdla_core.fields import (
    COMPUTE,
    FETCH,
    INP,
    INSTRUCTION,
    LOAD,
    LOAD_OP,
    STORE,
    STORE_OP,
    UNITS,
    WGT,
    WORD,
    field,
)
from vdla_core.port import Port


class Queue:
    """Queue of a unit's instructions; the first is being executed.

    Attributes:
        word: the first instruction; is_empty: whether the queue is empty.
        done: set by the unit in the last cycle of the first one.
        put: append the instruction in `given`.
        is_full: whether the queue cannot accept another instruction in the next cycle.
    """

    def __init__(self, m: Module, name: str, depth: int):
        # The instruction being executed is no longer in the queue.
        store = m.submodules[f"queue_{name}"] = Memory(
            shape=INSTRUCTION, depth=1 << depth.bit_length(), init=[]
        )
        read, write = store.read_port(domain="comb"), store.write_port()
        self.head, self.tail = (Signal(16, name=f"{end}_{name}") for end in ("head", "tail"))
        self.word, self.given = Signal(INSTRUCTION, name=f"word_{name}"), write.data
        self.done, self.put = Signal(name=f"done_{name}"), Signal(name=f"put_{name}")
        self.is_empty, self.is_full = Signal(name=f"empty_{name}"), Signal(name=f"full_{name}")
        m.d.comb += [
            read.addr.eq(self.head),
            self.word.eq(read.data),
            write.addr.eq(self.tail),
            write.en.eq(self.put),
            self.is_empty.eq(self.head == self.tail),
            self.is_full.eq((self.tail - self.head - self.done)[:16] > depth),
        ]
        m.d.sync += [self.head.eq(self.head + self.done), self.tail.eq(self.tail + self.put)]


def build_fetch(
    m: Module, port: Port, queues: list[Queue], read: Any, count: Signal, facts: dict[str, Any]
) -> None:
    """Fetch a number of instructions in order, and pass on one per cycle as they arrive.

    Args:
        read: a read port of the instruction memory.
    """
    burst, latency = facts["fetch"], facts["latency"]
    cycles = 1 + burst * INSTRUCTION // WORD
    number, left, wait = Signal(16), Signal(16), Signal(16, init=facts["start"])
    m.d.comb += [port.length[FETCH].eq(cycles), read.addr.eq(number)]
    unit = _unit_of(m, read.data)
    is_full = Array(queue.is_full for queue in queues)[unit]
    for each in UNITS:
        m.d.comb += queues[each].given.eq(read.data)
    with m.FSM(name="fetch", init="START" if facts["start"] else "ASK"):
        with m.State("START"):
            m.d.sync += wait.eq(wait - 1)
            with m.If(wait == 1):
                m.next = "ASK"
        with m.State("ASK"):
            with m.If(number < count):
                m.d.comb += port.ask[FETCH].eq(1)
            with m.If(port.grant[FETCH]):
                m.d.sync += [wait.eq(cycles + latency - 2), left.eq(burst)]
                m.next = "WAIT"
        with m.State("WAIT"):
            with m.If(wait != 0):
                m.d.sync += wait.eq(wait - 1)
            with m.Elif(~is_full):
                for each in UNITS:
                    m.d.comb += queues[each].put.eq(unit == each)
                m.d.sync += [number.eq(number + 1), left.eq(left - 1)]
                with m.If((left == 1) | (number + 1 == count)):
                    m.next = "GAP"
        with m.State("GAP"):
            m.next = "ASK"


def _unit_of(m: Module, word: Any) -> Signal:
    """Return the unit that executes an instruction."""
    memory, unit = field(word, "transfer", "memory"), Signal(2)
    m.d.comb += unit.eq(COMPUTE)
    with m.If((word[:3] == LOAD_OP) & Cat(memory == WGT, memory == INP).any()):
        m.d.comb += unit.eq(LOAD)
    with m.Elif(word[:3] == STORE_OP):
        m.d.comb += unit.eq(STORE)
    return unit
