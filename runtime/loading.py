"""Object code into this process: linking, the entry point, the number of threads."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Sequence

from tcopt.backends.llvm.jit_link import link_objects, threads_object
from tcopt.backends.llvm.machine.host import host_target, obstacle
from tcopt.backends.llvm.pool.text import THREADS_VARIABLE
from tcopt.backends.llvm.stop_flag import StopFlag
from tcopt.runtime.host_calls import HostCall, HostCalls
from tcopt.runtime.stopping import INTERRUPTS, Control
from tcopt.support.cores import default_threads
from tcopt.support.cpu_target import CpuTarget
from tcopt.support.errors import InputError, UnsupportedError

ENTRY_SYMBOL = "tcopt_main"
ARGUMENTS_SYMBOL = "tcopt_argument_facts"
_QUICK_SECONDS = 1e-3
"""A program whose last run took less does not ask each time who handles Ctrl-C."""


class Entry:
    """The entry point of loaded code: `int32_t tcopt_main(void **arguments)`.

    Attributes:
        threads: how many threads parallel loops may use, see `default_threads` at first.
        stop: makes the code return early.

    Args:
        externals: C functions that the code calls.
        calls: functions that it calls and Python computes.
    """

    def __init__(
        self, code: Sequence[bytes], externals: Iterable[str], calls: Iterable[HostCall] = ()
    ):
        # The linked library lives as long as this object.
        objects = [*code, threads_object(host_target())]
        self.stop = StopFlag()
        self._is_quick = False
        self._calls = HostCalls(calls, self.stop.set)
        symbols = [ENTRY_SYMBOL, THREADS_VARIABLE, ARGUMENTS_SYMBOL]
        own = self._calls.addresses
        self._library = link_objects(objects, externals, symbols, self.stop.address, own)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
        self._call = prototype(self._library[ENTRY_SYMBOL])
        self._threads = ctypes.c_int32.from_address(self._library[THREADS_VARIABLE])
        self.threads = default_threads()

    @property
    def argument_facts(self) -> list[int]:
        """What the code takes its arguments to be, see `argument_table`."""
        address = self._library[ARGUMENTS_SYMBOL]
        count = ctypes.c_int64.from_address(address).value
        return list((ctypes.c_int64 * (count + 1)).from_address(address))[1:]

    def __call__(
        self, arguments: ctypes.Array[ctypes.c_void_p], control: Control | None = None
    ) -> None:
        """Run the code.

        Args:
            control: what may end it early.
        Raises:
            CancelledError: that did.
            MemoryError: the code could not allocate what it needs.
        """
        if control is not None:
            with control.calling(self.stop.set):
                self._run(arguments, control)
            return
        INTERRUPTS.follow(self.stop, renew=not self._is_quick)
        if self._is_quick and not self._call(ctypes.addressof(arguments)):
            return
        self._calls.raise_failure()
        self._run(arguments, None)

    def _run(self, arguments: ctypes.Array[ctypes.c_void_p], control: Control | None) -> None:
        """Run to the end, again if a signal stopped the code whose handler lets it go on."""
        while True:
            self.stop.clear()
            if control is not None:
                INTERRUPTS.follow(self.stop, renew=True)
                control.check()
            start = time.perf_counter()
            if not self._call(ctypes.addressof(arguments)):
                self._is_quick = time.perf_counter() - start < _QUICK_SECONDS
                return
            self._calls.raise_failure()
            self.stop.check_memory()

    @property
    def threads(self) -> int:
        return self._threads.value

    @threads.setter
    def threads(self, number: int) -> None:
        if number < 1:
            raise InputError(f"the number of threads should be at least 1, got {number}")
        self._threads.value = number


def argument_table(facts: Sequence[int]) -> str:
    """LLVM IR of a table that goes with the code: what it takes its arguments to be.

    How many numbers follow, and those of `runtime.description.argument_facts`: what describes the
    code is compared with them when the code is loaded.
    """
    entries = ", ".join(f"i64 {value}" for value in (len(facts), *facts))
    return f"\n@{ARGUMENTS_SYMBOL} = constant [{len(facts) + 1} x i64] [{entries}]\n"


def description(target: CpuTarget) -> str:
    """What code for a target needs to run: architecture and CPU."""
    return f"{target.machine}/{target.cpu}"


def check_runs_here(target: CpuTarget) -> None:
    """Raise UnsupportedError if this machine cannot run code for a target."""
    reason = obstacle(target)
    if reason is not None:
        raise UnsupportedError(
            f"code for {target.cpu} cannot be loaded on this machine, which {reason}",
            hint="save the model as a shared library (.so) and run it where it belongs",
        )
