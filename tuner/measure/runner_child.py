"""A process that runs candidates for another one, which starts it as `runner` says.

It answers messages, see `support.messages`:

    {"device": "cpu"}            what to run on                          -> {}
    {"workload": true}, workload what is run from now on                 -> {}
    {"load": n}, code            n stands for this code                  -> {}
    {"fill": set, "code": n}     inputs are written, the rest poisoned   -> {}
    {"call": n, "threads": t}    one run                                 -> {"ns": number}
    {"check": n, "set": set}     how far the outputs are off             -> {"share": number}
                                 what is wrong with them                 -> {"wrong": text}
    {"time": n, "calls": c}      c runs, as often as "samples" says      -> {"ns": [...]}
    {"forget": n}                                                        -> {}

What goes wrong is {"error": ..., "message": ...}; an access outside of the buffers ends the
process, with a last message that says where it was.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import time
from typing import IO, Any

from tcopt.support.errors import TcoptError
from tcopt.support.processes.guarded_memory import Region, on_fault
from tcopt.support.processes.messages import listen, pack, send, unpack
from tcopt.tuner.measure.child_memory import limit_memory
from tcopt.tuner.measure.closeness import output_error
from tcopt.tuner.measure.device_memory import WorkloadMemory
from tcopt.tuner.measure.workload import Code, Workload

Facts = dict[str, Any]


class RunnerChild:
    """What the process holds: one workload, and kernels for it by number."""

    def __init__(self, replies: IO[bytes]):
        self._replies = replies
        self._device = "cpu"
        self._workload: Workload | None = None
        self._memory: Any = None
        self._kernels: dict[int, Any] = {}

    def serve(self, requests: queue.SimpleQueue[bytes]) -> None:
        """Answer until the process is ended."""
        while True:
            facts, parts = unpack(requests.get())
            try:
                reply = self._answer(facts, parts)
            except MemoryError as error:
                reply = {"error": "out-of-memory", "message": str(error) or "out of memory"}
            except TcoptError as error:
                reply = {"error": error.code, "message": error.message}
            except Exception as error:
                # Of ours, or of a device's package; the other side goes on.
                reply = {"error": "internal", "message": f"{type(error).__name__}: {error}"}
            self.reply(reply)

    def reply(self, facts: Facts) -> None:
        """Send an answer."""
        send(self._replies, pack(facts))

    def fault(self, address: int, number: int) -> None:
        """Say where the code went wrong, and end."""
        name = signal.Signals(number).name
        self.reply({"fault": name, "message": f"{name}{self._place(address)}"})
        os._exit(1)

    def _place(self, address: int) -> str:
        regions: list[tuple[str, Region]] = list(getattr(self._memory, "regions", ()))
        for kernel in self._kernels.values():
            regions += getattr(kernel, "regions", ())
        for name, region in regions:
            if address in region:
                before, after = region.start - address, address - region.start - region.size
                if before > 0:
                    return f", an access {before} bytes in front of {name}"
                return f", an access {after} bytes behind the end of {name}"
        return ""

    def _answer(self, facts: Facts, parts: list[memoryview]) -> Facts:
        for name, answer in (
            ("device", self._open),
            ("workload", self._prepare),
            ("load", self._load),
            ("check", self._check),
            ("fill", self._fill),
            ("call", self._call),
            ("time", self._time),
            ("forget", self._forget),
        ):
            if name in facts:
                return answer(facts, parts)
        raise ValueError(f"no such request: {facts}")

    def _open(self, facts: Facts, parts: list[memoryview]) -> Facts:
        self._device = facts["device"]
        if facts.get("memory"):
            limit_memory(facts["memory"])
        return {}

    def _prepare(self, facts: Facts, parts: list[memoryview]) -> Facts:
        if self._memory is not None:
            self._kernels = {}
            self._memory.close()
        self._workload = Workload.from_bytes(parts[0])
        self._memory = _memory_on(self._device, self._workload)
        return {}

    def _load(self, facts: Facts, parts: list[memoryview]) -> Facts:
        self._kernels[facts["load"]] = self._memory.load(Code.from_bytes(bytes(parts[0])))
        return {}

    def _fill(self, facts: Facts, parts: list[memoryview]) -> Facts:
        self._memory.fill(facts["fill"])
        self._kernels[facts["code"]].poison()
        return {}

    def _call(self, facts: Facts, parts: list[memoryview]) -> Facts:
        start = time.perf_counter_ns()
        self._kernels[facts["call"]].call(facts["threads"])
        return {"ns": time.perf_counter_ns() - start}

    def _check(self, facts: Facts, parts: list[memoryview]) -> Facts:
        assert self._workload is not None
        damage = self._memory.damage() or self._kernels[facts["check"]].damage()
        if damage is not None:
            return {"wrong": damage}
        share = 0.0
        kind: int = facts["set"]
        expected = self._workload.expected[kind]
        for number, (a, e) in enumerate(zip(self._memory.outputs(), expected, strict=True)):
            error = output_error(a, e, self._workload, facts["least_share"])
            if error.text:
                return {"wrong": f"output {number}: {error.text}"}
            share = max(share, error.share)
        return {"share": share}

    def _time(self, facts: Facts, parts: list[memoryview]) -> Facts:
        kernel = self._kernels[facts["time"]]
        threads, calls = facts["threads"], facts["calls"]
        kernel.time(facts["untimed"], threads)
        return {"ns": [kernel.time(calls, threads) for _ in range(facts["samples"])]}

    def _forget(self, facts: Facts, parts: list[memoryview]) -> Facts:
        kernel = self._kernels.pop(facts["forget"], None)
        if hasattr(kernel, "close"):
            kernel.close()
        return {}


def _memory_on(device: str, workload: Workload) -> WorkloadMemory:
    if device == "cpu":
        from tcopt.tuner.measure.native_memory import NativeMemory

        return NativeMemory(workload)
    from tcopt.support.registries.target_registry import target_named
    from tcopt.tuner.measure.launched_memory import LaunchedMemory

    kind: Any = target_named(device)
    return LaunchedMemory(kind.device(), workload)


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What anything prints must not end up between the messages.
    requests = listen(sys.stdin.buffer)
    child = RunnerChild(replies)
    kept = on_fault(child.fault)
    child.serve(requests)
    del kept
