"""The port: one channel for all, or one for reads and one for stores."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal

from vdla_core.fields import COMPUTE, FETCH, LOAD, STORE

_ORDER = (FETCH, LOAD, COMPUTE, STORE)


class Port:
    """Arbiter of a channel, which is granted to a requester for `length` cycles.

    The longest-waiting requester is granted the channel. Ties, or all requests on a machine with
    priority arbitration, go to the first of fetch, load, compute and store.
    """

    def __init__(self, m: Module, facts: dict[str, Any]):
        self.m = m
        self.ask = [Signal(name=f"ask{n}") for n in range(4)]
        self.grant = [Signal(name=f"grant{n}") for n in range(4)]
        self.length = [Signal(16, name=f"length{n}") for n in range(4)]
        self._age = [Signal(16, name=f"age{n}") for n in range(4)]
        self._by_priority = facts["arbitration"] == "priority"
        two = facts["channels"] == 2
        for users in ((FETCH, LOAD, COMPUTE), (STORE,)) if two else (_ORDER,):
            self._channel(users)

    def _channel(self, users: tuple[int, ...]) -> None:
        m, busy = self.m, Signal(16)
        with m.If(busy != 0):
            m.d.sync += busy.eq(busy - 1)
        for who in users:
            beaten: Any = Const(0, 1)
            for other in users:
                if other != who:
                    beaten = beaten | (self.ask[other] & self._goes_first(other, who))
            m.d.comb += self.grant[who].eq(self.ask[who] & (busy == 0) & ~beaten)
            waits = self.ask[who] & ~self.grant[who]
            m.d.sync += self._age[who].eq(Mux(waits, self._age[who] + 1, 0))
            with m.If(self.grant[who]):
                m.d.sync += busy.eq(self.length[who] - 1)

    def _goes_first(self, one: int, other: int) -> Any:
        is_first = Const(int(_ORDER.index(one) < _ORDER.index(other)), 1)
        if self._by_priority:
            return is_first
        older = self._age[one] > self._age[other]
        return older | ((self._age[one] == self._age[other]) & is_first)
