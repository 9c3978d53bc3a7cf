"""The cases of ONNX's backend suite, run by `tcopt.frontends.onnx.backend.Backend`."""

from __future__ import annotations

import os
import unittest
import warnings
from functools import cache
from pathlib import Path

PASSING = Path(__file__).with_name("passing.txt")


@cache
def all_cases() -> dict[str, tuple[str, type[unittest.TestCase]]]:
    """Category and test class of each CPU case, by its name."""
    # The real networks come with the package; nothing is fetched or written at home.
    with warnings.catch_warnings():
        # numpy's, about the suite's own reference values.
        warnings.simplefilter("ignore", RuntimeWarning)
        import onnx.backend.test

        from tcopt.frontends.onnx.backend import Backend

        suite = onnx.backend.test.BackendTest(Backend, __name__)
    cases: dict[str, tuple[str, type[unittest.TestCase]]] = {}
    for category, holder in suite.test_cases.items():
        for method in dir(holder):
            if method.startswith("test_") and method.endswith("_cpu"):
                cases[method.removesuffix("_cpu")] = (category, holder)
    return cases


def run_case(name: str) -> str | None:
    """Run a case; None if it passes, else what went wrong."""
    _, holder = all_cases()[name]
    test = holder(f"{name}_cpu")
    result = unittest.TestResult()
    with warnings.catch_warnings():
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
