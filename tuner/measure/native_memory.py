"""Kernels for CPUs, run in this process on buffers with canaries between forbidden pages."""

from __future__ import annotations

import ctypes
import time
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.llvm.jit_link import link_objects, threads_object
from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import assemble_object
from tcopt.backends.llvm.pool.text import THREADS_VARIABLE
from tcopt.backends.llvm.stop_flag import StopFlag
from tcopt.support.alignment import ALIGNMENT
from tcopt.support.guarded_memory import PAGE, Region, map_region
from tcopt.tuner.arguments import INPUT, OUTPUT, WEIGHT, Argument, dtype_of
from tcopt.tuner.measure.device_memory import CANARY, CANARY_BYTES
from tcopt.tuner.measure.held_arguments import HeldArguments
from tcopt.tuner.measure.values import poison
from tcopt.tuner.measure.workload import Code, Workload

Array = NDArray[Any]

_REPEAT = "tcopt_repeat"
_GUARD = 16 << 20
"""Bytes of address space around each buffer: who is far off is still not in another one."""
_STAGGER = 7
"""Buffers start at different multiples of the alignment in their pages, as in a workspace: where
all start with a page, stores wait for loads from other buffers at the same place of a page."""


class NativeBuffer:
    """One buffer, with canaries and forbidden pages on both sides.

    Attributes:
        array: what is in it.
        region: the pages.
    """

    def __init__(self, argument: Argument, number: int):
        self.argument = argument
        size = argument.size
        shift = number * _STAGGER * ALIGNMENT % PAGE
        pages = -(-(2 * CANARY_BYTES + shift + size) // PAGE) * PAGE
        self.region = map_region(pages, CANARY_BYTES + shift, size, writable=True, guard=_GUARD)
        whole = np.ctypeslib.as_array(
            (ctypes.c_uint8 * pages).from_address(self.region.base + _GUARD)
        )
        start = CANARY_BYTES + shift
        whole[...] = CANARY
        self._sides = (whole[:start], whole[start + size :])
        inner = whole[start : start + size]
        self.array: Array = inner.view(dtype_of(argument.dtype)).reshape(argument.shape)
        self._digest = 0

    @property
    def address(self) -> int:
        """Where it begins."""
        return self.region.start

    def commit(self) -> None:
        """Keep in mind what it holds, unless code may write to it."""
        if self.argument.role in (INPUT, WEIGHT):
            self._digest = zlib.crc32(_bytes(self.array))

    def changed(self) -> bool:
        """Whether it holds something else by now."""
        return zlib.crc32(_bytes(self.array)) != self._digest

    def damaged(self) -> str | None:
        """On which side something was written."""
        for side, where in zip(self._sides, ("in front of", "behind"), strict=True):
            if np.any(side != CANARY):
                return where
        return None


class NativeMemory(HeldArguments[NativeBuffer]):
    """A workload's buffers in this process."""

    def __init__(self, workload: Workload):
        self._numbers = 0
        super().__init__(workload, self.buffer)

    def buffer(self, argument: Argument) -> NativeBuffer:
        """A new buffer."""
        self._numbers += 1
        return NativeBuffer(argument, self._numbers)

    @property
    def regions(self) -> list[tuple[str, Region]]:
        """All memory of inputs, weights and outputs, with words for it."""
        return [(describe(n, b), b.region) for n, b in enumerate(self.arguments)]

    def load(self, code: Code) -> NativeKernel:
        """Link an object."""
        return NativeKernel(self, code)

    def damage(self) -> str | None:
        """What was written that may not be."""
        for number, buffer in enumerate(self.arguments):
            side = buffer.damaged()
            if side is not None:
                return f"the code writes {side} {describe(number, buffer)}"
            if buffer.argument.role in (INPUT, WEIGHT) and buffer.changed():
                return f"the code writes to {describe(number, buffer)}, which it may only read"
        return None

    def outputs(self) -> list[Array]:
        """What the outputs hold."""
        return [b.array for b in self.arguments if b.argument.role == OUTPUT]

    def close(self) -> None:
        """Give the memory back."""
        for buffer in self.clear():
            buffer.region.free()


class NativeKernel:
    """An object linked into this process."""

    def __init__(self, memory: NativeMemory, code: Code):
        self._workspace = [memory.buffer(argument) for argument in code.workspace]
        self._stop = StopFlag()
        places = [buffer.address for buffer in self._workspace]
        held = memory.rows()
        self._around = list({id(b): b.region for row in held for b in row}.values())
        self._around += [buffer.region for buffer in self._workspace]
        rows = [[*(b.address for b in row), *places] for row in held]
        count = len(rows[0])
        objects = [code.data, threads_object(host_target()), _repeating(count)]
        exported = (code.symbol, THREADS_VARIABLE, _REPEAT)
        self._code: Any = link_objects(objects, set(code.externals), exported, self._stop.address)
        self._threads = ctypes.c_int32.from_address(self._code[THREADS_VARIABLE])
        self._rows = (ctypes.c_void_p * (count * len(rows)))(*(a for row in rows for a in row))
        self._count = len(rows)
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        self._repeat = kind(self._code[_REPEAT])
        self._function = self._code[code.symbol]

    @property
    def regions(self) -> list[tuple[str, Region]]:
        """The memory for intermediate values, with words for it."""
        return [("the memory for intermediate values", b.region) for b in self._workspace]

    def call(self, threads: int) -> None:
        """Run once; who touches what is not its own is caught."""
        self._let_read_around(False)
        self._threads.value = threads
        self._repeat(self._function, self._rows, 1, 1)
        self._stop.check_memory()

    def time(self, calls: int, threads: int) -> float:
        """Nanoseconds of a call, in memory with other memory around."""
        self._let_read_around(True)
        self._threads.value = threads
        start = time.perf_counter_ns()
        self._repeat(self._function, self._rows, self._count, calls)
        taken = time.perf_counter_ns() - start
        self._stop.check_memory()
        return taken / calls

    def _let_read_around(self, readable: bool) -> None:
        for region in self._around:
            region.let_read(readable)

    def poison(self) -> None:
        """Fill the memory for intermediate values with what no kernel computes."""
        for buffer in self._workspace:
            poison(buffer.array)

    def damage(self) -> str | None:
        """What it wrote beside that memory."""
        for buffer in self._workspace:
            side = buffer.damaged()
            if side is not None:
                return f"the code writes {side} the memory for intermediate values"
        return None

    def close(self) -> None:
        """Give the memory back."""
        for buffer in self._workspace:
            buffer.region.free()
        self._workspace, self._around = [], []


def describe(number: int, buffer: NativeBuffer) -> str:
    """Words for an argument."""
    return f"argument {number}, an {buffer.argument.role}".replace("an weight", "a weight")


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


@cache
def _repeating(count: int) -> bytes:
    """Object code that calls a function of `count` pointers again and again, on rows in turn."""
    return assemble_object(_repeat_text(count), host_target())


def _repeat_text(count: int) -> str:
    loads: Sequence[str] = [
        f"  %q{n} = getelementptr ptr, ptr %row, i64 {n}\n  %p{n} = load ptr, ptr %q{n}, align 8"
        for n in range(count)
    ]
    pointers = ", ".join(f"ptr %p{n}" for n in range(count))
    return f"""
define void @{_REPEAT}(ptr %function, ptr %rows, i64 %count, i64 %calls) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %calls
  br i1 %more, label %body, label %end
body:
  %turn = urem i64 %i, %count
  %place = mul i64 %turn, {count}
  %row = getelementptr ptr, ptr %rows, i64 %place
{chr(10).join(loads)}
  call void %function({pointers})
  %next = add i64 %i, 1
  br label %loop
end:
  ret void
}}
"""
