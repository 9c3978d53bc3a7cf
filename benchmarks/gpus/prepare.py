"""Compiles the next measurements in other processes while one is timed.

A prepared measurement is all that needs a CPU: the compiled program, inputs, the results of
onnxruntime to compare with, and counts. Timing happens in the process that has the device.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import prod

import numpy as np
from onnx import ModelProto

from gpus.items import Item, Numbers, feeds_of, widened
from gpus.variants import VARIANTS, Variant
from tcopt.compiler.driver import compile_model
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.outcome import Compiled
from tcopt.compiler.report import Report
from tcopt.frontends.onnx.model.options import CODE, NO_OPTIONS
from tcopt.runtime.device.program import DeviceProgram
from tcopt.support.arithmetic.sizes import evaluate
from tcopt.support.pipelines.phases import Phase
from tcopt.tools.benchmarking.measure import contraction_flops

AHEAD = 3
"""Prepared measurements of each process that may wait for the device."""

REFERENCE_THREADS = 4


@dataclass
class Prepared:
    """Everything that the device needs for a measurement.

    Attributes:
        feeds: in f32 where the model has other floats.
        program: None if the model did not compile.
        reference: results of onnxruntime on the f32 model; None without it.
        flops, moved: of contractions, and bytes that move at least.
        errors: texts by what failed: `tcopt` or `onnxruntime`.
        seconds: of compiling.
    """

    item: Item
    feeds: dict[str, np.ndarray]
    program: DeviceProgram | None = None
    reference: list[np.ndarray] | None = None
    flops: int = 0
    moved: int = 0
    errors: dict[str, str] = field(default_factory=dict[str, str])
    seconds: float = 0.0


def prepare(item: Item, target: str, workers: int | None = None) -> Prepared:
    """Build, compile and evaluate a model; failures are noted.

    Args:
        workers: additional processes that compile kernels.
    """
    built = item.build()
    if item.how is Numbers.QUANTIZED:
        built = widened(built, item.batch)
    made, model = Prepared(item, feeds_of(built, item.dtype)), built
    try:
        model = item.model()
        start = time.perf_counter()
        made.program = compiled(model, item, target, workers)
        made.seconds = time.perf_counter() - start
        made.moved = _moved(made.program)
        made.flops = evaluate(contraction_flops(model.SerializeToString(), NO_OPTIONS), {})
    except Exception as error:
        made.errors["tcopt"] = describe(error)
    try:
        made.reference = _reference(model if _runs_as_it_is(item) else built, made.feeds)
    except Exception as error:
        made.errors["onnxruntime"] = describe(error)
    return made


def _moved(program: DeviceProgram) -> int:
    """Bytes of inputs, outputs and weights, each once."""
    specs = (*program.inputs, *program.outputs)
    tensors = (spec.dtype.itemsize * prod(map(int, spec.shape)) for spec in specs)  # pyright: ignore
    return sum(tensors) + program.weights.nbytes


def describe(error: BaseException) -> str:
    """Type and text of an error, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500]


def _runs_as_it_is(item: Item) -> bool:
    """Return whether onnxruntime runs the compiled model instead of the f32 one."""
    return item.how is Numbers.QUANTIZED


@dataclass(frozen=True)
class _VariantOptions(CompileOptions):
    """Options of a compile whose pipeline has a change."""

    variant: Variant = field(default=VARIANTS[""], metadata=CODE)

    @cached_property
    def phases(self) -> list[Phase]:
        return self.variant.phases(super().phases)


def compiled(model: ModelProto, item: Item, target: str, workers: int | None) -> DeviceProgram:
    """Compile a model as an item says."""
    variant = VARIANTS[item.variant]
    # Changed rules are those of this process, and no cache knows of them.
    options = _VariantOptions(
        target=target,
        precision=item.precision,
        timed=True,
        cache=not item.variant,
        workers=0 if item.variant else workers,
        variant=variant,
    )
    with variant.rules():
        found = compile_model(model.SerializeToString(), options, Report(None))
    assert isinstance(found, Compiled) and isinstance(found.program, DeviceProgram)
    # Remarks are long, and of no use to the device.
    found.program.remarks = ()
    return found.program


def _reference(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = REFERENCE_THREADS
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(array) for array in session.run(None, feeds)]


class Preparer:
    """Prepares measurements in order, some ahead of the one that is wanted.

    Args:
        processes: other processes; none to prepare each measurement when it is wanted, as a device
            that is the CPU itself needs.
    """

    def __init__(self, target: str, processes: int):
        self._target, self._processes = target, processes
        self._before = {child.pid for child in multiprocessing.active_children()}
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Preparer:
        if self._processes:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is None:
            return
        self._pool.shutdown(wait=False, cancel_futures=True)
        # Compiles that are under way would hold up the end.
        for child in multiprocessing.active_children():
            if child.pid not in self._before:
                child.terminate()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(self._processes, mp_context=context)

    def each(self, items: Sequence[Item], patience: float) -> Iterator[Prepared | Exception]:
        """A `Prepared` for every item, or the exception that ended its process.

        Args:
            patience: seconds to wait for one of them.
        """
        waiting: deque[tuple[Item, Future[Prepared]]] = deque()
        rest = iter(items)
        while True:
            room = max(AHEAD * self._processes, 1) - len(waiting)
            waiting.extend((item, self._submit(item)) for item in islice(rest, room))
            if not waiting:
                return
            _, future = waiting.popleft()
            try:
                answer: Prepared | Exception = future.result(patience)
            except TimeoutError:
                answer = TimeoutError(f"not prepared within {patience:.0f} s")
            except Exception as error:
                answer = error
            if isinstance(answer, BrokenProcessPool):
                self._start()
                waiting = deque((item, self._submit(item)) for item, _ in waiting)
            yield answer

    def _submit(self, item: Item) -> Future[Prepared]:
        if self._pool is not None:
            return self._pool.submit(prepare, item, self._target, 1)
        future: Future[Prepared] = Future()
        try:
            future.set_result(prepare(item, self._target))
        except Exception as error:
            future.set_exception(error)
        return future
