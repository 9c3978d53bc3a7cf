"""Compiled program for a CPU: machine code, packed weights and a workspace."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.llvm.machine.host import obstacle
from tcopt.runtime.addresses import address_of
from tcopt.runtime.checks import CheckMemory, split_added
from tcopt.runtime.description import argument_facts
from tcopt.runtime.host_calls import HostCall, Texts, as_code_has_it
from tcopt.runtime.in_place import InPlaceResults
from tcopt.runtime.loading import EntryPoint, check_runs_here
from tcopt.runtime.outputs import OutputPool, align
from tcopt.runtime.profile import TimedKernel
from tcopt.runtime.program_sizes import (
    ProgramSizes,
    RunSizes,
    defined_sizes,
    refuse_sizes,
    shape_at,
    symbols_in_shape,
)
from tcopt.runtime.run_options import (
    DeviceName,
    RunOptions,
    check_destination,
    deliver,
    is_writable_in_place,
)
from tcopt.runtime.signature import Signature
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.stopping import Control
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.data.random_keys import new_key
from tcopt.support.data.strings import is_text
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError, SizeRangeError, UnsupportedError
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.support.processes.cores import default_threads, usable_cores
from tcopt.support.processes.memory import copy_and_release
from tcopt.support.processes.threads import map_side_by_side
from tcopt.support.remarks import Remark

Array = NDArray[Any]

__all__ = ["Array", "Program", "aligned_empty", "pack_weights"]


def aligned_empty(size: int) -> NDArray[np.uint8]:
    """Return uninitialised bytes aligned to `ALIGNMENT`."""
    return align(np.empty(size + ALIGNMENT, np.uint8), size)


def pack_weights(
    layout: Mapping[str, tuple[int, int]], weights: MutableMapping[str, Array], size: int
) -> NDArray[np.uint8]:
    """Move weights into one block.

    Args:
        layout: offset and size in bytes of each weight by name.
        weights: values by name. The mapping is emptied: each array is released once it is copied,
            and so are the pages of mapped files, so that two copies exist only briefly.
        size: bytes of the whole block.
    """
    for unused in weights.keys() - layout.keys():
        del weights[unused]
    # Padding between weights is saved too, so it must not be uninitialised memory.
    block = align(np.zeros(size + ALIGNMENT, np.uint8), size)

    def copy(name: str) -> None:
        offset, count = layout[name]
        data = weights.pop(name)
        place = block[offset : offset + count].view(data.dtype).reshape(data.shape)
        copy_and_release(place, data)

    # Most of the time is spent on first-touch page faults, which parallelise over cores.
    map_side_by_side(copy, layout, usable_cores())
    return block


@dataclass
class Program:
    """A model compiled for fixed shapes, or for ranges of sizes.

    Attributes:
        target: target of the code; if it is not this machine, the program can only be saved.
        objects: the object files.
        externals: C functions that the code calls.
        weights: the packed weights.
        workspace_bytes: size of the memory for intermediates.
        report: facts about the compile, for information.
        timed: the kernel calls that an instrumented program times, in order.
        times: their starts and ends in the last run, [calls, 2], nanoseconds.
        compile_times: seconds of each step of the compile.
        remarks: decisions of a compile with clocks; empty otherwise.
        kernels_compiled: number of kernels that were not found in the cache.
        cached: whether the whole program came from the cache.
        signature: how its inputs and outputs form those of the model; None if they are the same.
        checks: trailing outputs of kind `CHECK`, which are removed from `outputs`.
        keys: trailing inputs of kind `KEY`, which are removed from `inputs`.
        host_functions: the distinct functions that the code calls and Python computes.
        call_order: index of the function in `host_functions` at each call, in the program's order.
        strings: string constants of the model, by their index in the code.
        sizes: sizes that extents of inputs and outputs have, in the order of the code's arguments.
        checked_sizes: sizes that the program computes and of which a run has to check that they
            are in their ranges.
        defined: sizes that the program computes.
        counts: their values, outputs of kind `SIZE` before the checks, which are removed from
            `outputs`.
    """

    target: CpuTarget
    objects: list[bytes]
    externals: list[str]
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    weights: NDArray[np.uint8]
    workspace_bytes: int
    report: dict[str, int] = field(default_factory=dict[str, int])
    compile_times: dict[str, float] = field(default_factory=dict[str, float])
    timed: list[TimedKernel] | None = None
    remarks: tuple[Remark, ...] = ()
    kernels_compiled: int = 0
    cached: bool = False
    signature: Signature | None = None
    host_functions: list[HostCall] = field(default_factory=list[HostCall])
    call_order: list[int] = field(default_factory=list[int])
    strings: list[str] = field(default_factory=list[str])
    sizes: Sequence[Symbol] = ()
    checked_sizes: Sequence[Symbol] = ()

    def __post_init__(self) -> None:
        if self.workspace_bytes < 0:
            raise ValueError(f"a workspace of {self.workspace_bytes} bytes")
        self.outputs, self.checks = split_added(self.outputs, Kind.CHECK)
        self.outputs, self.counts = split_added(self.outputs, Kind.SIZE)
        self.defined = defined_sizes(self.outputs, self.counts, self.checked_sizes)
        self.inputs, self.keys = split_added(self.inputs, Kind.KEY)
        self._entry = None
        if obstacle(self.target) is None:
            self._entry = EntryPoint(self.objects, self.externals, self.host_functions)
            self._check_arguments(self._entry)
        self._pools = [OutputPool(as_code_has_it(spec)) for spec in self.outputs]
        texts = [s for s in (*self.inputs, *self.outputs) if is_text(s.dtype)]
        called = bool(self.host_functions)
        self._in_place = InPlaceResults(self.inputs, self.outputs)
        self._texts = None
        if called or texts:
            self._texts = Texts(self.strings, self.inputs, self.outputs, called=called)
        self._checks = CheckMemory(self.checks)
        self._workspace = aligned_empty(self.workspace_bytes)
        self.times = np.zeros((len(self.timed or ()), 2), np.int64)
        blocks: list[Array] = [self.weights, self._workspace]
        if self.timed is not None:
            blocks.append(self.times)
        self._solver = ProgramSizes(self.sizes, self.inputs, self.outputs)
        self._size_values = np.zeros(len(self.sizes), np.int64)
        self._count_values = [np.zeros(1, spec.dtype) for spec in self.counts]
        addresses = [
            *(count.ctypes.data for count in self._count_values),
            *self._checks.addresses,
            *(self._size_values[n:].ctypes.data for n in range(len(self.sizes))),
            *(block.ctypes.data for block in blocks),
        ]
        first = len(self.inputs) + len(self.keys) + len(self.outputs)
        self._arguments = (ctypes.c_void_p * (first + len(addresses)))()
        for position, address in enumerate(addresses, first):
            self._arguments[position] = address

    @property
    def calls(self) -> list[HostCall]:
        """The host call at each call site, in program order; equal layers share one function."""
        return [self.host_functions[number] for number in self.call_order]

    def _check_arguments(self, entry: EntryPoint) -> None:
        """Check that the described arguments match those compiled into the code."""
        sizes = self.weights.nbytes, self.workspace_bytes
        results = [as_code_has_it(spec) for spec in (*self.outputs, *self.counts, *self.checks)]
        given = [as_code_has_it(spec) for spec in (*self.inputs, *self.keys)]
        if entry.argument_facts != argument_facts(given, results, *sizes, self.sizes):
            raise InputError(
                "the model's code does not match the inputs, outputs or weights in its description",
                hint="compile the model again",
            )

    @property
    def entry(self) -> EntryPoint:
        """The loaded code.

        Raises:
            UnsupportedError: it is for another machine.
        """
        if self._entry is None:
            check_runs_here(self.target)
            raise AssertionError("code for this machine is loaded at once")
        return self._entry

    @property
    def symbols(self) -> Sequence[Symbol]:
        """All sizes that extents of its inputs and outputs have."""
        return (*self.sizes, *self.defined)

    kind = "cpu"

    @property
    def size(self) -> int:
        return self.weights.nbytes + sum(map(len, self.objects))

    def session(self, device: DeviceName | None = None) -> NoReturn:
        """Raise UnsupportedError, as a CPU has no separate memory."""
        raise UnsupportedError(
            "a model for a CPU has no device memory", hint="its `run` copies nothing"
        )

    @property
    def parts(self) -> Sequence[Program]:
        """The program itself, as its only stage."""
        return [self]

    def run(
        self,
        feeds: Sequence[Array],
        threads: int | None = None,
        control: Control | None = None,
        options: RunOptions | None = None,
    ) -> list[Array]:
        """Run on checked inputs, in order; not thread-safe.

        Args:
            threads: number of threads, by default one per core.
            control: may stop the run by a CancelledError.
            options: destinations of results.
        Raises:
            InputError: a check of the data failed, see `checks`, or an option is illegal.
            SizeRangeError: a size that the program computes is outside of its range.
        """
        if options is not None:
            return self._run_into(feeds, threads, control, options)
        if self._texts is not None:
            return self._texts.run(lambda given: self._run(given, threads, control), feeds)
        return self._run(feeds, threads, control)

    def _run_into(
        self,
        feeds: Sequence[Array],
        threads: int | None,
        control: Control | None,
        options: RunOptions,
    ) -> list[Array]:
        """Run with results in given arrays."""
        if options.stream is not None:
            raise InputError("a model for a CPU has no stream", hint="leave stream out")
        memory: list[Array | None] = []
        shapes = self._sizes_of(feeds).outputs
        for spec, shape in zip(self.outputs, shapes, strict=True):
            given = options.out.get(spec.name)
            if given is None:
                memory.append(None)
                continue
            # The shapes of some outputs are known after the run.
            known = set(symbols_in_shape(spec)).isdisjoint(self.defined)
            if known:
                check_destination(spec, shape, given)
            used = (*feeds, *(each for each in memory if each is not None))
            if known and isinstance(given, np.ndarray) and is_writable_in_place(given, used):
                memory.append(given)
            else:
                memory.append(None)
        if self._texts is not None:
            results = self._texts.run(
                lambda a: self._run(a, threads, control, memory, options.donate), feeds
            )
        else:
            results = self._run(feeds, threads, control, memory, options.donate)
        return deliver(self.outputs, results, options.out)

    def _sizes_of(self, feeds: Sequence[Array]) -> RunSizes:
        return self._solver.of(tuple(array.shape for array in feeds) if self.sizes else ())

    def _run(
        self,
        feeds: Sequence[Array],
        threads: int | None,
        control: Control | None,
        memory: Sequence[Array | None] | None = None,
        donated: Collection[str] = (),
    ) -> list[Array]:
        """Run on arrays in the code's representation, in which strings are indices.

        Args:
            memory: arrays that the code writes outputs to; None for a new one.
            donated: names of inputs that the code may overwrite.
        """
        entry = self.entry
        entry.threads = threads or default_threads()
        arguments = self._arguments
        sizes = self._sizes_of(feeds)
        values, shapes = sizes.values, sizes.outputs
        if values:
            self._size_values[:] = values
        if self._in_place.inputs:
            feeds, memory = self._in_place.prepare(feeds, donated, memory, self._pools, sizes)
        if self.keys:
            feeds = [*feeds, *(new_key() for _ in self.keys)]
        for position, array in enumerate(feeds):
            arguments[position] = address_of(array)
        outputs: list[Array] = []
        for position, (pool, shape) in enumerate(zip(self._pools, shapes, strict=True), len(feeds)):
            given = None if memory is None else memory[position - len(feeds)]
            if given is None:
                array, arguments[position] = pool.take(shape)
            else:
                array, arguments[position] = given, address_of(given)
            outputs.append(array)
        entry(arguments, control)
        if self.checked_sizes:
            self._refuse_sizes()
        self._checks.refuse_if_any()
        return self._cut(outputs, values, self._count_values) if self.defined else outputs

    def _refuse_sizes(self) -> None:
        """Call `refuse_sizes` for the sizes of the last run."""
        try:
            refuse_sizes(self.checked_sizes, self.counts, self._count_values)
        except SizeRangeError:
            # Sizes are clamped to their ranges, so other checks may have failed because of them.
            self._checks.clear()
            raise

    def _cut(
        self, outputs: Sequence[Array], sizes: Sequence[int], counts: Sequence[Array]
    ) -> list[Array]:
        """Return outputs with the shapes that follow from the sizes that a run has defined.

        Args:
            counts: the values of these sizes.
        """
        values = {symbol.name: int(size) for symbol, size in zip(self.sizes, sizes, strict=True)}
        for symbol, count in zip(self.defined, counts, strict=True):
            values[symbol.name] = count.item()
        shapes = (shape_at(spec, values) for spec in self.outputs)
        return [
            array if array.shape == shape else np.ndarray(shape, array.dtype, array)
            for array, shape in zip(outputs, shapes, strict=True)
        ]
