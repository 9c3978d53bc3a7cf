"""Other runtimes, as references for results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError

Array = NDArray[Any]
Feeds = Mapping[str, Array]

ONNXRUNTIME, REFERENCE = "onnxruntime", "reference"
RUNTIMES = (ONNXRUNTIME, REFERENCE)
"""`reference` is onnx's own evaluator in numpy, which is always installed with tcopt."""


@dataclass(frozen=True)
class RunTimes:
    """Milliseconds of repeated runs, without the first."""

    median: float
    fastest: float
    runs: int

    def __str__(self) -> str:
        return f"{self.median:.2f} ms median, {self.fastest:.2f} ms best of {self.runs}"


def measure(run: Callable[[], list[Any]], repeat: int) -> tuple[list[Any], RunTimes]:
    """Run once, then `repeat` timed runs."""
    results = run()
    times: list[float] = []
    for _ in range(repeat):
        started = time.perf_counter()
        results = run()
        times.append((time.perf_counter() - started) * 1e3)
    return results, RunTimes(float(np.median(times)), min(times), repeat)


def reference_run(
    runtime: str, model: str | bytes, threads: int | None = None
) -> Callable[[Feeds], list[Any]]:
    """Return a function that runs a model on another runtime.

    Args:
        model: a file or its bytes.
    Raises:
        InputError: the runtime is not installed or cannot load the model.
    """
    make = _onnxruntime if runtime == ONNXRUNTIME else _reference
    try:
        run = make(model, threads)
    except InputError:
        raise
    except Exception as error:
        raise _refusal(runtime, error) from error

    def checked(feeds: Feeds) -> list[Any]:
        try:
            # A sequence result is a list of arrays.
            return [v if isinstance(v, list) else np.asarray(v) for v in run(feeds)]
        except Exception as error:
            raise _refusal(runtime, error) from error

    return checked


def _refusal(runtime: str, error: Exception) -> InputError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return InputError(f"{runtime} does not run the model: {lines[0]}")


def _onnxruntime(model: str | bytes, threads: int | None) -> Callable[[Feeds], Any]:
    try:
        import onnxruntime
    except ImportError:
        raise InputError(
            "onnxruntime is not installed",
            hint="pip install onnxruntime, or compare with 'reference'",
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, dict(feeds))


def _reference(model: str | bytes, threads: int | None) -> Callable[[Feeds], Any]:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    return lambda feeds: evaluator.run(None, dict(feeds))
