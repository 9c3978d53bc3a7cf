"""Register operations of the compute unit: loops of micro-ops, the matrix unit, the ALU."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal

from vdla_core.fields import ACC, GEMM_OP, INP, UOP, WGT, field
from vdla_core.memories import Memories

_LANES = 2
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


class Steps:
    """Two loops around micro-ops, each of which takes the number of cycles of its kind."""

    def __init__(self, m: Module, word: Any, facts: dict[str, Any]):
        self.m, self.word = m, word
        self.outer, self.inner, self.uop, self._cycle = (
            Signal(14, name=name) for name in ("outer", "inner", "uop", "cycle")
        )
        is_gemm, by_number = word[:3] == GEMM_OP, field(word, "alu", "use_imm")
        of_alu = Mux(by_number, facts["alu_imm"], facts["alu_reg"])
        self._cycles = Mux(is_gemm, facts["gemm_cycles"], of_alu)
        self.is_step = self._cycle + 1 == self._cycles

    def begin(self) -> None:
        """Start with the first micro-op."""
        first = field(self.word, "gemm", "uop_begin")
        self.m.d.sync += [self.outer.eq(0), self.inner.eq(0), self.uop.eq(first)]
        self.m.d.sync += self._cycle.eq(0)

    def moved(self, name: str) -> Any:
        """Return the current offset of a field."""
        outer, inner = (field(self.word, "gemm", f"{name}_{loop}") for loop in ("out", "in"))
        return self.outer * outer + self.inner * inner

    def go_on(self) -> Any:
        """Advance by a cycle; whether it is the last cycle of the last micro-op."""
        m, word = self.m, self.word
        begin, end = field(word, "gemm", "uop_begin"), field(word, "gemm", "uop_end")
        last_uop = self.uop + 1 == end
        last_in = self.inner + 1 == field(word, "gemm", "loop_in")
        with m.If(~self.is_step):
            m.d.sync += self._cycle.eq(self._cycle + 1)
        with m.Else():
            m.d.sync += [self._cycle.eq(0), self.uop.eq(Mux(last_uop, begin, self.uop + 1))]
            with m.If(last_uop):
                m.d.sync += self.inner.eq(Mux(last_in, 0, self.inner + 1))
                with m.If(last_in):
                    m.d.sync += self.outer.eq(self.outer + 1)
        last_out = self.outer + 1 == field(word, "gemm", "loop_out")
        return self.is_step & last_uop & last_in & last_out


class Arithmetic:
    """The matrix unit, whose sums are available `rewrite` cycles after they are read, and the
    ALU."""

    def __init__(self, memories: Memories, word: Any, facts: dict[str, Any]):
        self.m, self.word = memories.m, word
        self.steps = steps = Steps(self.m, word, facts)
        self._entries = memories.entries
        uop = self._entries[UOP][steps.uop]
        self._place = {
            name: (field(uop, "micro_op", name) + steps.moved(name))[: 11 if name != "wgt" else 10]
            for name in ("dst", "src", "wgt")
        }
        self._late: list[tuple[Signal, Signal, Signal]] = []
        for n in range(facts["rewrite"] - 1):
            made = Signal(name=f"late{n}"), Signal(11, name=f"to{n}"), Signal(64, name=f"sum{n}")
            self._late.append(made)
        for (on, to, sums), (was, before, value) in zip(self._late[1:], self._late, strict=False):
            self.m.d.sync += [on.eq(was), to.eq(before), sums.eq(value)]
        if self._late:
            self.m.d.sync += self._late[0][0].eq(0)
            on, to, sums = self._late[-1]
            with self.m.If(on):
                self.m.d.sync += self._entries[ACC][to].eq(sums)

    def execute(self) -> None:
        """A micro-op, in its last cycle."""
        with self.m.If(self.word[:3] == GEMM_OP):
            self._multiply()
        with self.m.Else():
            self._combine()

    def _multiply(self) -> None:
        """Multiply a row of two bytes by 2 x 2 others and add to two sums; or reset to zeros."""
        data, weights = (
            self._entries[memory][self._place[name]]
            for memory, name in ((INP, "src"), (WGT, "wgt"))
        )
        sums: list[Any] = []
        for lane in range(_LANES):
            total = self._register("dst", lane)
            for i in range(2):
                factor = weights.word_select(2 * lane + i, 8).as_signed()
                total = total + data.word_select(i, 8).as_signed() * factor
            sums.append(total[:32])
        result = Mux(field(self.word, "gemm", "reset"), 0, Cat(*sums))
        if not self._late:
            self.m.d.sync += self._entries[ACC][self._place["dst"]].eq(result)
            return
        on, to, value = self._late[0]
        self.m.d.sync += [on.eq(1), to.eq(self._place["dst"]), value.eq(result)]

    def _combine(self) -> None:
        """Combine two registers, or a register and an immediate, lane by lane."""
        number = field(self.word, "alu", "imm").as_signed()
        by_number = field(self.word, "alu", "use_imm")
        lanes: list[Any] = []
        for lane in range(_LANES):
            name = f"operand{lane}"
            left, right = Signal(range(_LEAST, _MOST), name=f"left{lane}"), Signal(32, name=name)
            self.m.d.comb += left.eq(self._register("dst", lane))
            self.m.d.comb += right.eq(Mux(by_number, number, self._register("src", lane)))
            results = _results(left, right.as_signed())
            lanes.append(Array(results)[field(self.word, "alu", "code")])
        self.m.d.sync += self._entries[ACC][self._place["dst"]].eq(Cat(*lanes))

    def _register(self, name: str, lane: int) -> Any:
        return self._entries[ACC][self._place[name]].word_select(lane, 32).as_signed()


def _results(a: Any, b: Any) -> list[Any]:
    """Results of each ALU operation on two numbers, in the order of their codes."""
    high = (a * b + Const(1 << 30)) >> 31
    return [
        Mux(a < b, a, b)[:32],
        Mux(a < b, b, a)[:32],
        (a + b)[:32],
        Mux(b < 0, (a << (-b)[:5])[:32], (a >> b[:5])[:32]),
        Mux(high > _MOST, _MOST, high)[:32],
    ]
