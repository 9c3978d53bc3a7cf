"""The cases of ONNX's backend suite, run by `tcopt.compiler.onnx_backend.Backend`.

Cases for a CUDA target run on a CUDA driver without a device, which executes the PTX.
"""

from __future__ import annotations

import os
import unittest
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from machines.cuda_machine import cuda_machine

CPU = "cpu"

PASSING = Path(__file__).with_name("passing.txt")


def tensor_pairs(expected: Any, actual: Any) -> Iterator[tuple[Any, Any]]:
    """Each expected tensor with the one that is there, of sequences as long and nested alike."""
    lists = isinstance(expected, list | tuple), isinstance(actual, list | tuple)
    assert lists[0] == lists[1], f"{type(actual)} instead of {type(expected)}"
    if not lists[0]:
        assert (expected is None) == (actual is None), f"{actual} instead of {expected}"
        yield from [(expected, actual)] if expected is not None else []
        return
    assert len(expected) == len(actual), f"{len(actual)} values instead of {len(expected)}"
    for wanted, given in zip(expected, actual, strict=True):
        yield from tensor_pairs(wanted, given)


_current: list[str] = []
"""The case that is run, and its target."""


def is_drawn(name: str) -> bool:
    """Whether a case draws random numbers, of which ONNX says that they differ from one
    implementation to another whatever the seed is."""
    is_dropout = name.startswith("test_training_dropout") and "zero_ratio" not in name
    return is_dropout or name.startswith("test_bernoulli")


def check_drawn(expected: Sequence[Any], actual: Sequence[Any]) -> None:
    """Check shapes and types, and elements where neither side dropped one."""
    assert len(actual) == len(expected)
    for wanted, given in zip(expected, actual, strict=True):
        assert (given.shape, given.dtype) == (wanted.shape, wanted.dtype)
        both = (wanted != 0) & (given != 0)
        np.testing.assert_allclose(given[both], wanted[both], rtol=1e-3)
        assert (given == 0).any() and (given != 0).any(), "nothing is drawn"


@cache
def all_cases() -> dict[str, tuple[str, type[unittest.TestCase]]]:
    """Category and test class of each CPU case, by its name."""
    # The real networks come with the package; nothing is fetched or written at home.
    with warnings.catch_warnings():
        # numpy's, about the suite's own reference values.
        warnings.simplefilter("ignore", RuntimeWarning)
        import onnx.backend.test

        from tcopt.compiler.onnx_backend import Backend

        class TargetBackend(Backend):
            @classmethod
            def prepare(cls, model, device="CPU", **kwargs):
                return super().prepare(model, device, target=_current[-1], **kwargs)

        class Suite(onnx.backend.test.BackendTest):
            @classmethod
            def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
                """Sequences by their tensors: the suite's own cannot compare scalars in them."""
                pairs = list(tensor_pairs(list(ref_outputs), list(outputs)))
                expected, actual = [e for e, _ in pairs], [a for _, a in pairs]
                if _current and is_drawn(_current[0]):
                    check_drawn(expected, actual)
                    return
                super().assert_similar_outputs(expected, actual, rtol, atol, model_dir)

        suite = Suite(TargetBackend, __name__)
    cases: dict[str, tuple[str, type[unittest.TestCase]]] = {}
    for category, holder in suite.test_cases.items():
        for method in dir(holder):
            if method.startswith("test_") and method.endswith("_cpu"):
                cases[method.removesuffix("_cpu")] = (category, holder)
    return cases


def _device(target: str) -> AbstractContextManager[object]:
    """Make the device of a target available while the context is open."""
    kind, _, arch = target.partition(":")
    if kind != "cuda":
        return nullcontext()
    digits = arch.removeprefix("sm_")
    return cuda_machine((int(digits[:-1]), int(digits[-1])))


def run_case(name: str, target: str = CPU) -> str | None:
    """Run a case; None if it passes, else what went wrong."""
    _, holder = all_cases()[name]
    test = holder(f"{name}_cpu")
    _current[:] = [name, target]
    result = unittest.TestResult()
    with warnings.catch_warnings(), _device(target):
        warnings.simplefilter("ignore")
        test.run(result)
    if result.wasSuccessful() and not result.skipped:
        return None
    problems = [text for _, text in (*result.failures, *result.errors, *result.skipped)]
    lines = [line for line in problems[0].splitlines() if line.strip()]
    return next((line for line in lines if "Error: " in line), lines[-1])


def passing_cases() -> list[str]:
    """The cases that are known to pass; the list only grows."""
    return PASSING.read_text().split()


def set_home(folder: Path) -> None:
    """Where the suite may put files."""
    os.environ.setdefault("ONNX_HOME", str(folder))
