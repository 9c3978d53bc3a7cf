"""A compiled model: the user-facing class."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from numpy.typing import NDArray

from tcopt.runtime.defaults import Defaults
from tcopt.runtime.explanation import Explanation
from tcopt.runtime.kept_programs import Accepted, KeptPrograms
from tcopt.runtime.profile import Profile, measure_profile
from tcopt.runtime.rooms import contiguous
from tcopt.runtime.run_options import DeviceName, RunOptions, check_count, known_outputs
from tcopt.runtime.signature import Feed, flatten, group, select_values
from tcopt.runtime.specs import ReadyFeeds, TensorSpec, fixed_symbols, select_feeds
from tcopt.runtime.staged import AnyProgram, Specialization, StagedProgram
from tcopt.runtime.stopping import Cancellation, Control
from tcopt.runtime.summary import html_summary, summary
from tcopt.runtime.whole_program import WholeProgram
from tcopt.support.data.random_keys import seeded
from tcopt.support.data.structures import Kind
from tcopt.support.errors import (
    InputError,
    ResourceError,
    SizeRangeError,
    UnsupportedError,
)
from tcopt.support.files.access import as_path
from tcopt.support.processes.stop_checks import StopChecks
from tcopt.support.registries.target_registry import find_target

if TYPE_CHECKING:
    from tcopt.runtime.device.interface import Device
    from tcopt.runtime.device.session import DeviceSession

Array = NDArray[Any]
_MEMORY_HINT = "run a smaller batch, or end other programs"

_MODELS: WeakSet[Model] = WeakSet()


def _free_locks() -> None:
    """Replace all locks in the child of a fork, where no other thread is left to release them."""
    for model in list(_MODELS):
        model.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_locks)


class Model:
    """A compiled model: `outputs = model.run({"data": x})`.

    Attributes:
        name: name of the file without its suffix, or an empty string; shown by `repr`.
        target: target that the model is compiled for, such as `cpu:haswell`.
        inputs, outputs: names, shapes and types, in the model's order.
        fixed_by: origin of each named dimension's extent, for messages.
    """

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        program: AnyProgram | None,
        specialization: Specialization | None,
    ):
        self.name = ""
        self.target = "" if program is None else program.parts[0].kind
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self._program = program
        self._specialization = specialization
        self.fixed_by: dict[str, str] = {}
        self._tensors_only = all(spec.kind is Kind.TENSOR for spec in self.inputs)
        self._names = [spec.name for spec in self.outputs]
        self._programs = KeptPrograms()
        self._ready = ReadyFeeds(self.inputs)
        self._lock = Lock()
        self._last = program
        self._threads: int | None = None
        self._device: DeviceName | None = None
        self._options: RunOptions | None = None
        self._timed: tuple[tuple[object, ...], AnyProgram] | None = None
        self.defaults: Defaults | None = None
        self.fallback: Specialization | None = None
        """Compiles the model for runs in which a size is outside of the program's range."""
        self.instrumented: Specialization | None = None
        """Compiles the model again with clocks around its kernels, for `profile`."""
        _MODELS.add(self)

    def __repr__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        return html_summary(self)

    def renew_lock(self) -> None:
        """Replace the locks in the child of a fork, as dead threads may hold them."""
        self._lock = Lock()
        if self.defaults is not None:
            self.defaults.renew_lock()

    @classmethod
    def of(cls, program: AnyProgram) -> Model:
        """Return a model with fixed shapes."""
        signature = program.signature
        if signature is None:
            return cls(program.inputs, program.outputs, program, None)
        staged = isinstance(program, StagedProgram)
        outputs = program.outputs if staged else signature.outputs
        return cls(signature.inputs, outputs, program, None)

    @classmethod
    def lazy(
        cls,
        specialization: Specialization,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
    ) -> Model:
        """Return a model that is compiled when it runs, for the shapes of its runs."""
        return cls(inputs, outputs, None, specialization)

    @property
    def program(self) -> WholeProgram:
        """The compiled program of a model with fixed shapes.

        Raises:
            UnsupportedError: shapes are open, so there is no program before a run, or depend on
                data, so there are several.
        """
        if self._program is None:
            raise UnsupportedError(
                "the model's shapes are open, so it is compiled when it runs",
                hint="fix the shapes when compiling, as in shapes={'x': [1, 3, 224, 224]}, or give "
                "ranges, as in dims={'batch': (1, 32)}",
            )
        if isinstance(self._program, StagedProgram):
            raise UnsupportedError(
                "a model whose shapes depend on data has no single program that could be saved: "
                "each stage is compiled for the results of the one before",
                hint="cut it before the operator that determines them, such as "
                "NonMaxSuppression; it can be run, profiled and explained as it is",
            )
        return self._program

    @property
    def parts(self) -> Sequence[WholeProgram]:
        """The programs of the last run, one per stage; empty before it if shapes are open."""
        return [] if self._last is None else self._last.parts

    @property
    def threads(self) -> int | None:
        """Maximum number of threads of parallel loops; None is one per core."""
        return self._threads

    @threads.setter
    def threads(self, number: int | None) -> None:
        if number is not None:
            check_count("threads", number)
        self._threads = number

    @property
    def device(self) -> DeviceName | None:
        """The device that the model runs on: its number, or a part of an OpenCL device's name.

        None is the one that the environment selects. Setting it raises InputError for a CPU, and
        UnsupportedError if there is no such device.
        """
        return self._device

    @device.setter
    def device(self, which: DeviceName | None) -> None:
        if which is not None and find_target(self.target)[0].open_device(which) is None:
            raise InputError(f"target {self.target} has no devices to choose from")
        self._device = which
        self._options = None if which is None else RunOptions(which)

    def open_device(self) -> Device | None:
        """Return the device that the model runs on; None for a CPU."""
        return find_target(self.target)[0].open_device(self._device)

    @property
    def programs_kept(self) -> int:
        """Maximum number of specialisations that a model with open shapes keeps.

        The least recently used one is evicted; a run that needs it again compiles it again, or
        loads it from the cache on disk.
        """
        return self._programs.most

    @programs_kept.setter
    def programs_kept(self, number: int) -> None:
        with self._lock:
            self._programs.most = check_count("programs kept", number)

    def extents(self, feeds: Mapping[str, Array] | None = None) -> dict[str, int]:
        """Return the extents of named dimensions that are fixed.

        Args:
            feeds: of a run, which fix the other dimensions.
        """
        found = fixed_symbols(self.inputs)
        for spec in self.inputs:
            if feeds is not None and spec.name in feeds and spec.kind is Kind.TENSOR:
                found.update(spec.symbols(feeds[spec.name].shape))
        return found

    def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        *,
        out: Mapping[str, Any] | Sequence[Any] | None = None,
        on_device: bool = False,
        stream: int | None = None,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        seed: int | None = None,
        donate: Iterable[str] = (),
    ) -> list[Any]:
        """Run the model.

        Args:
            feeds: a numpy array for each input by name, or a tensor of any library with DLPack's
                `__dlpack__` or `__cuda_array_interface__`, which is read where it is; a list of
                them for a sequence, None for an optional without an element.
            outputs: names of the outputs wanted, by default all in order.
            out: writable tensors that outputs are written to, by their names or in their order.
                What they hold after an error is undefined.
            on_device: leave the results in the memory of the device, as tensors that other
                libraries take by DLPack. The run may not be complete when this returns.
            stream: handle of the caller's CUDA stream: the run starts after the work that is queued
                there, and work that is queued there later starts after the run.
            timeout: time limit of the run in seconds, which includes waiting for another run and
                compiling for new shapes.
            cancellation: allows another thread to stop the run.
            seed: seed of random operators without one of their own, which else draw new numbers.
            donate: names of inputs whose arrays the run may overwrite, see docs/states.md.
        Returns:
            An array for each output, or the tensor of `out`, or a list or None as for inputs.
        Raises:
            InputError: feeds that do not fit the model, or an unknown output.
            ResourceError: there is not enough memory.
            DeadlineError: the time limit was exceeded; the model can be run again.
            CancelledError: the run was cancelled; the model can be run again.
        """
        control = None
        if timeout is not None or cancellation is not None:
            control = Control(timeout, cancellation)
        options = self._options
        if out is not None or on_device or stream is not None or donate:
            options = RunOptions.of(self, out, stream, on_device=on_device, donate=donate)
        if seed is not None:
            with seeded(seed):
                return self.run_under(control, feeds, outputs, options)
        return self.run_under(control, feeds, outputs, options)

    def run_under(
        self,
        control: Control | None,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        options: RunOptions | None = None,
    ) -> list[Any]:
        """Run the model, as part of an operation that `control` may stop."""
        with StopChecks(None if control is None else control.check):
            return self._run_checked(control, feeds, outputs, options)

    def _run_checked(
        self,
        control: Control | None,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | None,
        options: RunOptions | None,
    ) -> list[Any]:
        names = self._names
        wanted = None if outputs is None else known_outputs(names, outputs)
        values: Any = None
        accepted = None
        are_contiguous = False
        if (ready := self._ready.of(feeds)) is not None:
            values, shapes, are_contiguous = ready
            accepted = self._programs.accepted.get(shapes)
        if accepted is None:
            if (other := self._overridden(feeds, control)) is not None:
                return other.run_under(control, feeds, outputs, options)
            values = self._select(feeds)
        with self._lock if control is None else control.holding(self._lock):
            try:
                program = self._program_for(values) if accepted is None else accepted.program
                if accepted is not None and program is not self._last:
                    self._programs.touch(accepted.key)
                self._last = program
                if options is not None and options.donate and program.parts[0].checked_sizes:
                    # A program that is run again needs its inputs.
                    options = replace(options, donate=frozenset())
                results: Any
                try:
                    if are_contiguous and program.signature is None:
                        results = program.run(values, self._threads, control, options)
                    else:
                        results = self._run(program, values, control, options)
                except SizeRangeError as error:
                    results = self._run_fitting(error, values, control, options)
            except MemoryError as error:
                message = f"running the model needs more memory than there is: {error}"
                raise ResourceError(message, hint=_MEMORY_HINT) from error
        if options is not None:
            results = options.returned(names, results)
        if wanted is None:
            return results
        return [results[names.index(name)] for name in wanted]

    def _run(
        self,
        program: AnyProgram,
        values: Sequence[Feed],
        control: Control | None,
        options: RunOptions | None,
    ) -> Sequence[Feed]:
        """Run a program, and group its results into the model's outputs."""
        flat = contiguous(self._flat(values), program.inputs)
        results, signature = program.run(flat, self._threads, control, options), program.signature
        if isinstance(program, StagedProgram) or signature is None:
            return results
        return group(signature.outputs, signature.output_counts, cast("list[Array]", results))

    def _run_fitting(
        self,
        error: SizeRangeError,
        values: Sequence[Feed],
        control: Control | None,
        options: RunOptions | None,
    ) -> Sequence[Feed]:
        """Run a program that is compiled for a size that exceeded the range of another program.

        Args:
            error: the error of the other program.
        """
        own = self._specialization or self.fallback
        if own is None:
            raise error
        feeds = self._named(values)
        failed: set[tuple[object, ...]] = set()
        while True:
            # The frames of the failed run refer to its results.
            error.__traceback__ = None
            found = error.name, error.low, error.high
            program = self._programs.fitting(own, feeds, error, is_final=found in failed)
            self._last = program
            failed.add(found)
            try:
                return self._run(program, values, control, options)
            except SizeRangeError as other:
                error = other

    def _overridden(self, feeds: Mapping[str, Any], control: Control | None = None) -> Model | None:
        """Return the model for feeds that override default values; None if they do not."""
        return None if self.defaults is None else self.defaults.model_for(self, feeds, control)

    def _select(self, feeds: Mapping[str, Any]) -> Sequence[Feed]:
        """Return the checked feed of each input, in order."""
        if self._tensors_only:
            return select_feeds(self.inputs, feeds, self.fixed_by, self.open_device)
        fixed = None
        if self._program is not None and self._program.signature is not None:
            fixed = self._program.inputs, self._program.signature.input_counts
        return select_values(self.inputs, feeds, self.fixed_by, fixed, self.open_device)

    def _flat(self, values: Sequence[Feed]) -> list[Array]:
        """Return the arrays that a program takes; only a device's programs get its tensors."""
        return cast("list[Array]", values if self._tensors_only else flatten(values))

    def session(self) -> DeviceSession:
        """Return a session that keeps the inputs and outputs of a model in device memory.

        Raises:
            UnsupportedError: the model is for a CPU, its shapes are open, or there is no device.
        """
        return self.program.session(self._device)

    def profile(self, feeds: Mapping[str, Any], runs: int = 20) -> Profile:
        """Run the model with a clock around each kernel; return the time of each.

        The model is compiled again with clocks; `run` is unaffected.

        Args:
            feeds: a numpy array for each input by name.
            runs: number of measured runs, after two warm-up runs.
        Raises:
            InputError: feeds that do not fit the model, or no runs.
            UnsupportedError: the model was loaded instead of compiled, so its source is not
                available.
        """
        check_count("runs", runs)
        if (other := self._overridden(feeds)) is not None:
            return other.profile(feeds, runs)
        values = self._select(feeds)
        with self._lock:
            program = self._timed_program(values)
            flat = self._flat(values)
            return measure_profile(program, flat, runs, self._threads, self._options)

    def explain(self, feeds: Mapping[str, Any] | None = None) -> Explanation:
        """Return the compiler's decisions for each kernel, with reasons.

        The model is compiled again, and every decision is recorded.

        Args:
            feeds: a numpy array for each input, required if shapes are open or depend on data.
        Raises:
            InputError: feeds that do not fit the model.
            UnsupportedError: the model was loaded instead of compiled, or its shapes are open and
                no feeds are given.
        """
        if feeds is None and self._program is None:
            raise UnsupportedError(
                "the model's shapes are open, and the decisions depend on them",
                hint="give feeds to explain, or shapes when compiling",
            )
        if (other := self._overridden(feeds or {})) is not None:
            return other.explain(feeds)
        values = [] if feeds is None else self._select(feeds)
        with self._lock:
            program = self._timed_program(values)
            if isinstance(program, StagedProgram):
                if feeds is None:
                    raise UnsupportedError(
                        "the model's shapes depend on data, so later stages are compiled in a run",
                        hint="give feeds to explain",
                    )
                program.run(self._flat(values), self._threads)
        return Explanation.of_stages([(p.timed or (), p.remarks) for p in program.parts])

    def _timed_program(self, values: Sequence[Feed]) -> AnyProgram:
        if self.instrumented is None:
            raise UnsupportedError(
                "a model that was loaded cannot be profiled or explained",
                hint="compile it from the ONNX file instead",
            )
        # Without feeds, shapes must be fixed.
        feeds = {spec.name: a for spec, a in zip(self.inputs, values, strict=False)}
        if self._timed is None or self._timed[0] != self.instrumented.key(feeds):
            self._timed = self.instrumented.key(feeds), self.instrumented.compile(feeds)
        return self._timed[1]

    def _program_for(self, values: Sequence[Feed]) -> AnyProgram:
        """Return the program for checked feeds, and compile it if there is none yet."""
        if self._specialization is None:
            assert self._program is not None
            self._accept(values, Accepted(self._program, ()))
            return self._program
        found = self._programs.program_for(self._specialization, self._named(values))
        if self._specialization.needs_values:
            self._programs.forget_accepted()
        else:
            self._accept(values, found)
        return found.program

    def _named(self, values: Sequence[Feed]) -> dict[str, Feed]:
        return {spec.name: value for spec, value in zip(self.inputs, values, strict=True)}

    def _accept(self, values: Sequence[Feed], found: Accepted) -> None:
        """Let later runs with the same shapes skip checks that depend only on shapes."""
        if self._tensors_only:
            shapes = tuple(array.shape for array in cast("Sequence[Array]", values))
            self._programs.accept(shapes, found)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the model as its saved file, for `pickle` and `copy`.

        Raises:
            UnsupportedError: it cannot be saved, see `save`.
        """
        from tcopt.runtime.archive import program_bytes, restored

        return restored, (Model, program_bytes(self.program), self._threads, self.fixed_by)

    def save(self, path: str | Path) -> None:
        """Write the compiled model.

        Args:
            path: a `.tcm` file, which `load` reads, or a library for C, `.a` or `.so`; see
                `tcopt.export_kit` for its form.
        Raises:
            InputError: the path is not writable.
            UnsupportedError: the model is compiled when it runs, or has no form as a library.
            BackendError: there is no C compiler for a library.
        """
        from tcopt.runtime.archive import write_archive
        from tcopt.runtime.kit.export import LIBRARY_SUFFIXES, write_library

        place = as_path(path)
        if place.suffix in LIBRARY_SUFFIXES:
            write_library(place, self)
        else:
            write_archive(place, self.program)
