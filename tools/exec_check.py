"""`--verify-each=exec`: run the module before and after each pass and compare.

The first pass after which a result differs beyond the tolerance is named, with the
function and, where one can be found, the op whose value changed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tcopt.support.errors import (
    InputError,
    MismatchError,
    TcoptError,
    UnsupportedError,
)
from tcopt.support.locations import describe_location, nearest_location
from tcopt.tools.accuracy import Accuracy, compare
from tcopt.tools.executors import Array, functions, inputs_of, isolate, run
from tcopt.tools.inputs import InputSpec, make_inputs, read_arrays
from tcopt.tools.instruments import Instrument
from tcopt.tools.probes import changed_op

Results = dict[str, list[Array]]


@dataclass
class ExecCheck(Instrument):
    """Compare what a module computes before and after each pass.

    Args:
        inputs: `name=@file.npy` texts; other inputs are random from `seed`.
        rtol: accepted difference as a share of the range of the expected values.
        atol: accepted absolute difference.
    """

    inputs: Sequence[str] = ()
    seed: int = 0
    rtol: float = 1e-4
    atol: float = 1e-5
    _feeds: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])
    _expected: Results = field(default_factory=dict[str, list[Array]])
    _before: ModuleOp | None = None
    _skipped: list[str] = field(default_factory=list[str])

    def start(self, ctx: Context, module: ModuleOp) -> None:
        given = read_arrays(self.inputs)
        entries = _entries(module)
        if not entries:
            raise InputError("--verify-each=exec needs a function to run, the module has none")
        for name, func in entries.items():
            specs = inputs_of(module, func)
            values = make_inputs(specs, _given_for(specs, given, len(entries)), seed=self.seed)
            self._feeds[name] = [values[spec.name] for spec in specs]
        self._expected = self._run(module)
        _say(f"{', '.join(f'@{name}' for name in entries)} run before the first pass")

    def before(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        if not self._skipped:
            self._before = module.clone()

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        started = time.perf_counter()
        name = module_pass.name
        try:
            results = self._run(module)
        except UnsupportedError as error:
            # A state between two levels has no semantics of its own: judge it by the next one.
            self._skipped.append(name)
            _say(f"{name}: not run: {error}")
            return
        except Exception as error:
            text = error.message if isinstance(error, TcoptError) else f"{error!r}"
            raise MismatchError(f"after pass '{name}' the module fails to run: {text}") from error
        worst = self._check(name, module, results)
        _say(f"{name}: {worst} ({time.perf_counter() - started:.2f} s)")
        self._expected = results
        self._skipped.clear()

    def _run(self, module: ModuleOp) -> Results:
        entries = functions(module)
        alone = list(self._feeds) != ["main"]
        results: Results = {}
        for name, feeds in self._feeds.items():
            if name not in entries:
                raise UnsupportedError(f"there is no function @{name} any more")
            func = entries[name]
            results[name] = run(isolate(module, func) if alone else module, func, feeds)
        return results

    def _check(self, pass_name: str, module: ModuleOp, results: Results) -> str:
        largest = 0.0
        for name, values in results.items():
            expected = _last(self._expected[name], len(values))
            values = _last(values, len(expected))
            for index, (value, reference) in enumerate(zip(values, expected, strict=True)):
                try:
                    result = compare(
                        f"result {index}", value, reference, rtol=self.rtol, atol=self.atol
                    )
                except ValueError as error:
                    raise self._mismatch(pass_name, module, name, index, str(error)) from None
                if not result.passed:
                    raise self._mismatch(pass_name, module, name, index, _explain(result, self))
                largest = max(largest, result.max_abs)
        return f"same results, max difference {largest:.3g}"

    def _mismatch(
        self, pass_name: str, module: ModuleOp, func: str, index: int, text: str
    ) -> MismatchError:
        culprit: Operation | None = None
        if self._before is not None:
            culprit = changed_op(
                self._before, module, func, self._feeds[func], rtol=self.rtol, atol=self.atol
            )
        passes = "' or '".join([*self._skipped, pass_name])
        op_text = f"; the first value to differ is that of '{culprit.name}'" if culprit else ""
        where = describe_location(nearest_location(culprit)) if culprit else None
        return MismatchError(
            f"pass '{passes}' changed result {index} of @{func}: {text}{op_text}", where=where
        )


def _explain(result: Accuracy, check: ExecCheck) -> str:
    return (
        f"{result.summary()}, beyond rtol {check.rtol:g} of the range {result.scale:.3g} "
        f"plus atol {check.atol:g}"
    )


def _entries(module: ModuleOp) -> dict[str, Operation]:
    found = functions(module)
    return {"main": found["main"]} if "main" in found else found


def _given_for(
    specs: Sequence[InputSpec], given: dict[str, Array], entries: int
) -> dict[str, Array]:
    """With several functions, a given value goes to those that have an input of its name."""
    if entries == 1:
        return given
    names = {spec.name for spec in specs}
    return {name: value for name, value in given.items() if name in names}


def _last(values: list[Array], count: int) -> list[Array]:
    """The results proper: buffers that are only read come before those written."""
    return values[-count:] if count else values


def _say(text: str) -> None:
    print(f"// exec: {text}", file=sys.stderr)
