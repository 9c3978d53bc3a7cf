"""Builder of the LLVM IR text of a function that runs one thread."""

from __future__ import annotations

import ctypes

from tcopt.interpreters.ptx import layout


class FunctionText:
    """Builder of the body of an LLVM function with arguments `%block` and `%thread`.

    Attributes:
        lines: lines written so far.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def fresh(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def value(self, expression: str) -> str:
        """Assign an expression to a new SSA value, and return its name."""
        name = f"%{self.fresh()}"
        self.line(f"{name} = {expression}")
        return name

    def lane(self) -> str:
        """Return the lane index of the thread in its warp."""
        number = self.field("%thread", layout.offset(layout.Thread, "number"))
        return self.value(f"and i32 {number}, {layout.LANES - 1}")

    def field(self, pointer: str, offset: int, type_: str = "i32") -> str:
        """Load a value at a byte offset from a pointer."""
        place = self.value(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.value(f"load {type_}, ptr {place}")

    def set_field(self, pointer: str, offset: int, value: str, type_: str = "i32") -> None:
        place = self.value(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        self.line(f"store {type_} {value}, ptr {place}")

    def warp(self) -> str:
        """Return the pointer to the first thread of the thread's warp."""
        lane = self.lane()
        size = ctypes.sizeof(layout.Thread)
        back = self.value(f"mul i32 {lane}, -{size}")
        return self.value(f"getelementptr i8, ptr %thread, i32 {back}")

    def handed(self, lane: str, word: int) -> str:
        """Return a word that a lane of the warp contributed to the last exchange."""
        place = self.value(f"mul i32 {lane}, {ctypes.sizeof(layout.Thread)}")
        thread = self.value(f"getelementptr i8, ptr {self.warp()}, i32 {place}")
        return self.field(thread, layout.offset(layout.Thread, "shared", word))
