"""CPU kernels run in this process, on buffers with canaries between inaccessible pages."""

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
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.processes.guarded_memory import PAGE, GuardedRegion, map_region
from tcopt.tuner.arguments import INPUT, OUTPUT, WEIGHT, Argument, dtype_of
from tcopt.tuner.measure.device_memory import CANARY, CANARY_BYTES
from tcopt.tuner.measure.held_arguments import HeldArguments
from tcopt.tuner.measure.values import poison
from tcopt.tuner.measure.workload import Code, Workload

Array = NDArray[Any]

_REPEAT = "tcopt_repeat"
_GUARD = 16 << 20
"""Inaccessible bytes around each buffer, so that wild accesses do not reach another buffer."""
_STAGGER = 7
"""Buffers start at different multiples of the alignment within a page, as in a workspace. If all
started at the same page offset, loads would stall behind stores to other buffers (4K aliasing).
"""


class NativeBuffer:
    """A buffer with canaries and inaccessible pages on both sides.

    Attributes:
        array: the contents.
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
        """Start address of the buffer."""
        return self.region.start

    def commit(self) -> None:
        """Record a checksum of the contents, unless code may write to the buffer."""
        if self.argument.role in (INPUT, WEIGHT):
            self._digest = zlib.crc32(_bytes(self.array))

    def changed(self) -> bool:
        """Whether the contents differ from the checksum."""
        return zlib.crc32(_bytes(self.array)) != self._digest

    def damaged(self) -> str | None:
        """Return the side on which a canary was overwritten, or None."""
        for side, where in zip(self._sides, ("before", "after"), strict=True):
            if np.any(side != CANARY):
                return where
        return None


class NativeMemory(HeldArguments[NativeBuffer]):
    """A workload's buffers in this process."""

    def __init__(self, workload: Workload):
        self._numbers = 0
        super().__init__(workload, self.buffer)

    def buffer(self, argument: Argument) -> NativeBuffer:
        """Allocate a buffer for an argument."""
        self._numbers += 1
        return NativeBuffer(argument, self._numbers)

    @property
    def regions(self) -> list[tuple[str, GuardedRegion]]:
        """Memory of all inputs, weights and outputs, with descriptions."""
        return [(describe(n, b), b.region) for n, b in enumerate(self.arguments)]

    def load(self, code: Code) -> NativeKernel:
        """Link object code."""
        return NativeKernel(self, code)

    def damage(self) -> str | None:
        """Describe the first illegal write; None if there is none."""
        for number, buffer in enumerate(self.arguments):
            side = buffer.damaged()
            if side is not None:
                return f"the code writes {side} {describe(number, buffer)}"
            if buffer.argument.role in (INPUT, WEIGHT) and buffer.changed():
                return f"the code writes to {describe(number, buffer)}, which it may only read"
        return None

    def outputs(self) -> list[Array]:
        """Return the contents of the outputs."""
        return [b.array for b in self.arguments if b.argument.role == OUTPUT]

    def close(self) -> None:
        """Free the memory."""
        for buffer in self.clear():
            buffer.region.free()


class NativeKernel:
    """Object code linked into this process."""

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
    def regions(self) -> list[tuple[str, GuardedRegion]]:
        """Memory of the workspace, with descriptions."""
        return [("the memory for intermediate values", b.region) for b in self._workspace]

    def call(self, threads: int) -> None:
        """Run once; an access outside of the kernel's buffers is caught."""
        self._let_read_around(False)
        self._threads.value = threads
        self._repeat(self._function, self._rows, 1, 1)
        self._stop.check_memory()

    def time(self, calls: int, threads: int) -> float:
        """Return the nanoseconds per call, with the memory around the buffers readable."""
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
        """Fill the workspace with values that no kernel computes."""
        for buffer in self._workspace:
            poison(buffer.array)

    def damage(self) -> str | None:
        """Describe what was written outside of the workspace; None if nothing."""
        for buffer in self._workspace:
            side = buffer.damaged()
            if side is not None:
                return f"the code writes {side} the memory for intermediate values"
        return None

    def close(self) -> None:
        """Free the memory."""
        for buffer in self._workspace:
            buffer.region.free()
        self._workspace, self._around = [], []


def describe(number: int, buffer: NativeBuffer) -> str:
    """Describe an argument by its number and role."""
    return f"argument {number}, an {buffer.argument.role}".replace("an weight", "a weight")


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


@cache
def _repeating(count: int) -> bytes:
    """Return object code that calls a function of `count` pointers in a loop over rows."""
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
