"""Loading of object code into this process: linking, the entry point, the number of threads."""

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
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.support.processes.cores import default_threads

ENTRY_SYMBOL = "tcopt_main"
ARGUMENTS_SYMBOL = "tcopt_argument_facts"
_QUICK_SECONDS = 1e-3
"""Run time in seconds below which the handler of Ctrl-C is not installed again before each run."""


class EntryPoint:
    """The entry point of loaded code: `int32_t tcopt_main(void **arguments)`.

    Attributes:
        threads: number of threads of parallel loops, initially `default_threads`.
        stop: makes the code return early.

    Args:
        externals: C functions that the code calls.
        calls: functions that it calls and Python computes.
    """

    def __init__(
        self, code: Sequence[bytes], externals: Iterable[str], calls: Iterable[HostCall] = ()
    ):
        # Keep the linked library, whose code is valid as long as this object.
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
        """The argument description stored in the code, see `argument_table`."""
        address = self._library[ARGUMENTS_SYMBOL]
        count = ctypes.c_int64.from_address(address).value
        return list((ctypes.c_int64 * (count + 1)).from_address(address))[1:]

    def __call__(
        self, arguments: ctypes.Array[ctypes.c_void_p], control: Control | None = None
    ) -> None:
        """Run the code.

        Args:
            control: may stop the run.
        Raises:
            CancelledError: the run was stopped.
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
        """Run to the end, and again if the code was stopped by a signal whose handler did not
        raise.
        """
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
    """Return LLVM IR of a constant table that describes the code's arguments.

    The table is its length followed by the integers of `runtime.description.argument_facts`. When
    the code is loaded, it is compared with the description of the program.
    """
    entries = ", ".join(f"i64 {value}" for value in (len(facts), *facts))
    return f"\n@{ARGUMENTS_SYMBOL} = constant [{len(facts) + 1} x i64] [{entries}]\n"


def description(target: CpuTarget) -> str:
    """Return the architecture and CPU that code for a target needs."""
    return f"{target.machine}/{target.cpu}"


def check_runs_here(target: CpuTarget) -> None:
    """Check that this machine can run code for a target.

    Raises:
        UnsupportedError: it cannot.
    """
    reason = obstacle(target)
    if reason is not None:
        raise UnsupportedError(
            f"code for {target.cpu} cannot be loaded on this machine, which {reason}",
            hint="tcopt.export_kit(model, folder) makes a library that runs where it belongs",
        )
