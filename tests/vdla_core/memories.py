"""The on-chip memories, and transfers of words between them and external memory."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal

from vdla_core.fields import ACC, ACC8, BITS, INP, LOAD, OUT, STORE, UOP, WGT, WORD, WORDS, field

_LOADED = {LOAD: (WGT, INP)}
_BY_COMPUTE = (UOP, ACC, ACC8)


class Memories:
    """Entries of `uop`, `wgt`, `inp` and `acc`, as arrays of registers by number.

    Args:
        read, write: ports of external memory.
    """

    def __init__(self, m: Module, read: Any, write: Any, facts: dict[str, Any]):
        self.m, self._read, self._write = m, read, write
        sizes = {UOP: "uop", WGT: "wgt", INP: "inp", ACC: "acc"}
        self.entries = {
            number: Array(
                Signal(BITS[number], name=f"{name}{n}")
                for n in range(facts[f"{name}_bytes"] * 8 // BITS[number])
            )
            for number, name in sizes.items()
        }
        self.entries[ACC8] = self.entries[OUT] = self.entries[ACC]


class Transfer:
    """A transfer of a unit: its fields, and its progress.

    Attributes:
        length: cycles for which it occupies the port.
        is_row, is_end: whether this word is the last of a row, and of the transfer.
    """

    def __init__(self, memories: Memories, unit: int, word: Any):
        self.m, self.memories, self.unit = memories.m, memories, unit
        names = ("memory", "sram", "dram", "rows", "columns", "stride")
        names += tuple(f"pad_{side}" for side in ("top", "bottom", "left", "right"))
        fields = {name: field(word, "transfer", name) for name in names}
        self.memory, self.sram, self.dram = (fields[name] for name in names[:3])
        self.rows, self.columns, self.stride = (fields[name] for name in names[3:6])
        self._pads = top, bottom, left, right = [fields[name] for name in names[6:]]
        self._row, self._column, self._part = (
            Signal(16, name=f"{name}{unit}") for name in ("row", "column", "part")
        )
        self._size = Signal(4, name=f"size{unit}")
        for number, words in WORDS.items():
            with self.m.If(self.memory == number):
                self.m.d.comb += self._size.eq(words)
        self.length = (self.rows * (1 + self.columns * self._size))[:16]
        last_part = self._part + 1 == self._size
        self.is_row = last_part & (self._column + 1 == self.columns)
        self.is_end = self.is_row & (self._row + 1 == self.rows)
        self._width = Signal(16, name=f"width{unit}")
        self._count = Signal(16, name=f"count{unit}")
        self._entry = Signal(16, name=f"entry{unit}")
        self.m.d.comb += [
            self._width.eq(left + self.columns + right),
            self._count.eq((top + self.rows + bottom) * self._width),
            self._entry.eq(self.sram + (top + self._row) * self._width + left + self._column),
        ]

    def begin(self) -> None:
        """Start with the first word; pads are cleared together with the whole tile."""
        m = self.m
        m.d.sync += [self._row.eq(0), self._column.eq(0), self._part.eq(0)]
        if self.unit == STORE:
            return
        with m.If(Cat(*self._pads).any()):
            for number in self._numbers:
                with m.If(self.memory == number):
                    for n, entry in enumerate(self.memories.entries[number]):
                        with m.If((n >= self.sram) & (n < self.sram + self._count)):
                            m.d.sync += entry.eq(0)

    def move(self) -> None:
        """Move a word and advance to the next."""
        m, place = self.m, Signal(32, name=f"place{self.unit}")
        at = self.dram + self._row * self.stride + self._column
        m.d.comb += place.eq(at * self._size + self._part)
        self._store(place) if self.unit == STORE else self._load(place)
        with m.If(self._part + 1 == self._size):
            m.d.sync += [self._part.eq(0), self._column.eq(self._column + 1)]
        with m.Else():
            m.d.sync += self._part.eq(self._part + 1)
        with m.If(self.is_row):
            m.d.sync += [self._column.eq(0), self._row.eq(self._row + 1)]

    @property
    def _numbers(self) -> tuple[int, ...]:
        """Return the memories that the unit loads."""
        return _LOADED.get(self.unit, _BY_COMPUTE)

    def _store(self, place: Any) -> None:
        port, entry = self.memories._write, self.memories.entries[ACC][self._entry]
        low = Cat(entry[:8], entry[32:40])
        data = Mux(self.memory == ACC, entry.word_select(self._part[:2], WORD), low)
        self.m.d.comb += [port.en.eq(1), port.addr.eq(place), port.data.eq(data)]

    def _load(self, place: Any) -> None:
        m, data = self.m, self.memories._read.data
        m.d.comb += self.memories._read.addr.eq(place)
        for number in self._numbers:
            entry = self.memories.entries[number][self._entry]
            with m.If(self.memory == number):
                if number == ACC8:
                    lanes = (data[:8].as_signed(), data[8:].as_signed())
                    for n, lane in enumerate(lanes):
                        m.d.sync += entry[32 * n : 32 * n + 32].eq(lane)
                elif WORDS[number] == 1:
                    m.d.sync += entry.eq(data)
                else:
                    bits = WORDS[number].bit_length() - 1
                    m.d.sync += entry.word_select(self._part[:bits], WORD).eq(data)
