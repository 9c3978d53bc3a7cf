"""Child process that runs native code; `native_process` starts it.

Each buffer is between inaccessible pages, and read-only arguments are in read-only memory. Requests
and replies are messages of `support.processes.serving`; buffers are in a file that both processes
map.

    {"load": text, ...}                       ->  {"handle": n}
    {"call": n, "arguments": [...], ...}      ->  {"result": value}
    {"load_ptx": text}                        ->  {"handle": n}
    {"launch": n, "arguments": [...], ...}    ->  {"result": null}
    {"forget": n}                             ->  {}

An access outside of the buffers ends the process, after a last message with its location.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from tcopt.backends.llvm.jit_link import link_objects, threads_object
from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import assemble_object
from tcopt.backends.llvm.pool.text import PARALLEL_SYMBOL, THREADS_VARIABLE
from tcopt.backends.llvm.stop_flag import StopFlag
from tcopt.interpreters.ptx.faults import PtxFaultError
from tcopt.interpreters.ptx.launch import PtxProgram
from tcopt.support.errors import BackendError
from tcopt.support.processes.guarded_memory import GuardedRegion, map_region, on_fault
from tcopt.support.processes.serving import Answer, Facts, Server
from tcopt.tools.execution.plain_objects import plain_object

_SCALARS = {
    "i1": ctypes.c_uint8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}

# Run iterations in strided order, one at a time.
_SHUFFLED = f"""
define void @{PARALLEL_SYMBOL}(ptr %fn, ptr %ctx, i64 %total, i64 %grain, i32 %threads) {{
entry:
  %third = udiv i64 %total, 3
  br label %offset
offset:
  %first = phi i64 [ 0, %entry ], [ %following, %done ]
  %more = icmp slt i64 %first, 3
  br i1 %more, label %head, label %end
head:
  %back = sub i64 2, %first
  %start = sub i64 %total, 1
  %high = sub i64 %start, %back
  br label %loop
loop:
  %i = phi i64 [ %high, %head ], [ %next, %body ]
  %inside = icmp sge i64 %i, 0
  br i1 %inside, label %body, label %done
body:
  %behind = add i64 %i, 1
  call void %fn(ptr %ctx, i64 %i, i64 %behind)
  %next = sub i64 %i, 3
  br label %loop
done:
  %following = add i64 %first, 1
  br label %offset
end:
  ret void
}}
"""


class _Child:
    def __init__(self, server: Server, file: int):
        self.server = server
        self.file = file
        self.loaded: dict[int, Any] = {}
        # Never set: a run that takes too long is ended with its process.
        self.stop = StopFlag()
        self.count = 0
        self.source: tuple[str, int | None] | None = None
        self.code = b""
        self.regions: list[GuardedRegion] = []
        self.handler = on_fault(self.fault)

    def answer(self, request: Facts, parts: list[memoryview]) -> Facts:
        if "forget" in request:
            self.loaded.pop(request["forget"], None)
            return {}
        try:
            if "load" in request:
                return {"handle": self.load(request)}
            if "load_ptx" in request:
                return {"handle": self.keep(PtxProgram(request["load_ptx"]))}
            if "launch" in request:
                return {"result": self.launch(request)}
            return {"result": self.call(request)}
        except RuntimeError as error:  # LLVM's errors.
            raise BackendError(str(error)) from error
        finally:
            for region in self.regions:
                region.free()
            self.regions = []

    def load(self, request: dict[str, Any]) -> int:
        """Compile and link code; a plain text may be optimised, as it is unoptimised LLVM IR."""
        target, source = host_target(), (request["load"], request["effort"])
        # Code that runs in two orders is compiled once and linked twice.
        if source != self.source:
            text, effort = source
            self.code = (
                assemble_object(text, target) if effort is None else plain_object(text, effort)
            )
            self.source = source
        objects = [self.code, threads_object(target)]
        externals = set(request["externals"])
        if request["shuffled"] and PARALLEL_SYMBOL in externals:
            externals.discard(PARALLEL_SYMBOL)
            objects.append(assemble_object(_SHUFFLED, target))
        exported = [*request["exports"], THREADS_VARIABLE]
        tracker = link_objects(objects, externals, exported, self.stop.address)
        ctypes.c_int32.from_address(tracker[THREADS_VARIABLE]).value = request["threads"]
        return self.keep(tracker)

    def keep(self, code: Any) -> int:
        """Keep loaded code, under a number."""
        self.count += 1
        self.loaded[self.count] = code
        return self.count

    def map(self, request: dict[str, Any]) -> None:
        for region in request["regions"]:
            self.regions.append(map_region(file=self.file, **region))

    def launch(self, request: dict[str, Any]) -> None:
        self.map(request)
        ranges = [(each.start, each.start + each.size) for each in self.regions]
        addresses = [ranges[number][0] + offset for _, number, offset in request["arguments"]]
        grid, block = (tuple(sizes) for sizes in request["sizes"])
        program: PtxProgram = self.loaded[request["launch"]]
        try:
            program.launch(request["symbol"], grid, block, addresses, ranges)
        except PtxFaultError as error:
            raise PtxFaultError(
                error.kind, error.line, f"{error.message} ({error.where})", where=""
            ) from None

    def call(self, request: dict[str, Any]) -> Any:
        self.map(request)
        types: list[Any] = []
        values: list[Any] = []
        for kind, value, offset in request["arguments"]:
            if kind == "ptr":
                types.append(ctypes.c_void_p)
                values.append(self.regions[value].start + offset)
            else:
                types.append(_SCALARS[kind])
                values.append(value)
        address = self.loaded[request["call"]][request["symbol"]]
        kind = request["result"]
        if request["packed"]:
            table = (ctypes.c_void_p * len(values))(*values)
            return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)(
                ctypes.addressof(table)
            )
        result = ctypes.CFUNCTYPE(_SCALARS.get(kind), *types)(address)(*values)
        return result & 1 if kind == "i1" else result

    def fault(self, address: int, number: int) -> None:
        """Report the location of a faulting access, and exit."""
        found: dict[str, Any] = {"signal": number}
        for position, region in enumerate(self.regions):
            if address in region:
                found |= {
                    "region": position,
                    "offset": address - region.start,
                    "size": region.size,
                    "writable": region.writable,
                }
        self.server.reply({"fault": found})
        os._exit(1)


def start(server: Server, file: int) -> Answer:
    """Return the function that answers requests; `file` holds the buffers."""
    return _Child(server, file).answer
