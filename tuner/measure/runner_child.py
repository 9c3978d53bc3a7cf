"""A process that runs candidates for another one, which starts it as `runner` says.

It answers messages, see `support.processes.serving`:

    {"workload": true}, workload what is run from now on                 -> {}
    {"load": n}, code            n stands for this code                  -> {}
    {"fill": set, "code": n}     inputs are written, the rest poisoned   -> {}
    {"call": n, "threads": t}    one run                                 -> {"ns": number}
    {"check": n, "set": set}     how far the outputs are off             -> {"share": number}
                                 what is wrong with them                 -> {"wrong": text}
    {"time": n, "calls": c}      c runs, as often as "samples" says      -> {"ns": [...]}
    {"forget": n}                                                        -> {}

An access outside of the buffers ends the process, after a last message with its location.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from tcopt.support.processes.guarded_memory import GuardedRegion, on_fault
from tcopt.support.processes.serving import Answer, Facts, Server
from tcopt.tuner.measure.closeness import output_error
from tcopt.tuner.measure.device_memory import WorkloadMemory
from tcopt.tuner.measure.outcomes import CRASH
from tcopt.tuner.measure.workload import Code, Workload


class RunnerChild:
    """State of the process: one workload, and kernels for it by number."""

    def __init__(self, server: Server, device: str):
        self._server = server
        self._device = device
        self._workload: Workload | None = None
        self._memory: Any = None
        self._kernels: dict[int, Any] = {}
        self._handler = on_fault(self.fault)

    def fault(self, address: int, number: int) -> None:
        """Say where the code went wrong, and end."""
        name = signal.Signals(number).name
        self._server.reply({"status": CRASH, "message": f"{name}{self._place(address)}"})
        os._exit(1)

    def _place(self, address: int) -> str:
        regions: list[tuple[str, GuardedRegion]] = list(getattr(self._memory, "regions", ()))
        for kernel in self._kernels.values():
            regions += getattr(kernel, "regions", ())
        for name, region in regions:
            if address in region:
                before, after = region.start - address, address - region.start - region.size
                if before > 0:
                    return f", an access {before} bytes in front of {name}"
                return f", an access {after} bytes behind the end of {name}"
        return ""

    def answer(self, facts: Facts, parts: list[memoryview]) -> Facts:
        """Answer a message."""
        for name, answer in (
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


def start(server: Server, device: str) -> Answer:
    """Return the function that answers requests about a kind of device."""
    return RunnerChild(server, device).answer
