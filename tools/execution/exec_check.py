"""`--verify-each=exec`: run the module before and after each pass and compare.

The first pass after which a value differs beyond the tolerance is named, with the function, the
stage or block and, where it is known, the op that gives the value. `docs/exec_check.md` says what
is run how, and what is compared.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tcopt.dialects.float_precision import precision_of, rounds
from tcopt.runtime.random_inputs import make_inputs
from tcopt.runtime.specs import TensorSpec
from tcopt.support.data.closeness import Tolerance, difference
from tcopt.support.errors import (
    InputError,
    MismatchError,
    TcoptError,
    UnsupportedError,
)
from tcopt.support.suggestions import suggest
from tcopt.tools.command_line.inputs import read_arrays
from tcopt.tools.execution.culprits import APPLIES_STEPS, EmitterFault, first_wrong_step
from tcopt.tools.execution.drawn_sizes import at_sizes, defined_sizes, draw_sizes
from tcopt.tools.execution.executors import Array, functions, inputs_of
from tcopt.tools.execution.fingerprints import Digests
from tcopt.tools.execution.native_process import NativeFault
from tcopt.tools.execution.prepared_code import PreparedCode
from tcopt.tools.execution.probes import changed_values, first_lasting
from tcopt.tools.execution.run_values import Run, ValueChanged, as_shape
from tcopt.tools.execution.stage_runs import place_of
from tcopt.tools.execution.traced_run import Tracer
from tcopt.tools.passes.instruments import Instrument

RTOL = 5e-5
"""Accepted difference as a share of a value's magnitude."""

MOVES_VALUES = "moves_values"
"""What a pass has as a true class attribute if it means to change values between ops, as one does
that moves a factor from an op into the weights of another. Else values of one location stay."""


LARGE = 64.0
"""Factor between the two sets of random inputs. Clamps that normal values stay inside, such as
those of an activation at 6 or of an exponential at 88, show with the larger ones."""

LARGE_NOTE = ", on inputs of large magnitude"


@dataclass
class LevelChain:
    """One set of inputs, with the runs of the module on it.

    Attributes:
        note: about the inputs, for the end of messages.
        sizes: numbers of the module's sizes, by name.
        feeds: values for the arguments of each function that is run.
    """

    tracer: Tracer
    note: str
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    feeds: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])


@dataclass
class ExecCheck(Instrument):
    """Compare what a module computes before and after each pass.

    Args:
        inputs: `name=@file.npy` texts; other inputs are random from `seed`.
        rtol: accepted difference as a share of the magnitude of the expected values.
        atol: accepted absolute difference.
        allow_unchecked: whether the last passes may leave a module that nothing runs.
        limit: seconds that a call of a function may take; by default they follow from its work.
        only: names of the functions to run after each pass; by default all of them.
    """

    inputs: Sequence[str] = ()
    seed: int = 0
    rtol: float = RTOL
    atol: float = 0.0
    allow_unchecked: bool = False
    limit: float | None = None
    only: Sequence[str] = ()
    _chains: list[LevelChain] = field(default_factory=list["LevelChain"])
    _skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _mark: int | None = None
    _moves_values: bool = False
    _state: ModuleOp | None = None
    """The module before the current pass, if that applies schedules."""

    def start(self, ctx: Context, module: ModuleOp) -> None:
        self._ctx = ctx
        base, digests = Tolerance(self.rtol, self.atol), Digests()
        given = read_arrays(self.inputs)
        for draw, sizes in enumerate(draw_sizes(module, self.seed, given)):
            note = f", at {', '.join(f'{n} = {v}' for n, v in sizes.items())}" if sizes else ""
            kinds = [(base, note), (replace(base, overflows=True), note + LARGE_NOTE)]
            chains = [
                LevelChain(
                    Tracer(tolerance, digests, self.limit, frozenset(self.only)), text, sizes
                )
                for tolerance, text in (kinds if draw == 0 else kinds[:1])
            ]
            self._feed(chains, at_sizes(module, sizes), given)
            for chain in chains:
                own = defined_sizes(module, sizes, chain.feeds.get("main", ()))
                chain.sizes = {**sizes, **own}
            self._chains += chains
        with PreparedCode() as code:
            for chain in self._chains:
                try:
                    fixed = at_sizes(module, chain.sizes)
                    chain.tracer.accept(chain.tracer.run(fixed, chain.feeds, code, chain.sizes))
                except EmitterFault as error:
                    raise _emitter_fault("before the first pass", error, chain) from None
            self._mark = _fingerprint(module, code)
        entries = self._chains[0].feeds
        _say(f"{', '.join(f'@{name}' for name in entries)} run before the first pass")

    def _feed(self, chains: list[LevelChain], module: ModuleOp, given: dict[str, Array]) -> None:
        """Set the inputs of chains: normal values, and large ones in the second chain, if any."""
        entries = _entries(module)
        if "main" not in entries and any(name in entries for name in self.only):
            entries = {name: func for name, func in entries.items() if name in self.only}
        if not entries:
            raise InputError("--verify-each=exec needs a function to run, the module has none")
        for name, func in entries.items():
            specs = _distinct(inputs_of(module, func))
            own = _given_for(specs, given, len(entries))
            values = make_inputs(specs, own, seed=self.seed)
            # By position: values of a function may share a name.
            chains[0].feeds[name] = [values[spec.name] for spec in specs]
            if len(chains) > 1:
                chains[1].feeds[name] = [
                    values[spec.name] if spec.name in own else enlarged(values[spec.name])
                    for spec in specs
                ]
        if len(chains) > 1 and not _may_be_large(module, chains):
            del chains[1]

    def before(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        applies_steps = bool(getattr(module_pass, APPLIES_STEPS, False))
        self._state = module.clone() if applies_steps else None

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        with PreparedCode() as code:
            self._after(module_pass, module, code)

    def _after(self, module_pass: ModulePass, module: ModuleOp, code: PreparedCode) -> None:
        started = time.perf_counter()
        name = module_pass.name
        self._moves_values |= bool(getattr(module_pass, MOVES_VALUES, False))
        mark = _fingerprint(module, code)
        if mark == self._mark and not self._skipped:
            _say(f"{name}: same program")
            return
        runs: list[Run] = []
        for chain in self._chains:
            try:
                runs.append(self._run(chain, module_pass, module, code))
            except UnsupportedError as error:
                # A state between two levels has no semantics of its own: judge it by the next one.
                subject = f"'{error.op_name}': " if error.op_name else ""
                self._skipped.append((name, f"{subject}{error.message}"))
                _say(f"{name}: not run: {error}")
                return
        for chain, run in zip(self._chains, runs, strict=True):
            chain.tracer.accept(run)
        self._skipped.clear()
        self._moves_values = False
        self._mark = mark
        count = len(runs[0].values) + len(runs[0].located)
        _say(f"{name}: same values, {count} compared ({time.perf_counter() - started:.2f} s)")

    def _run(
        self, chain: LevelChain, module_pass: ModulePass, module: ModuleOp, code: PreparedCode
    ) -> Run:
        """Run the module on one set of inputs and compare.

        Raises:
            MismatchError: a value differs, or the module fails to run.
            UnsupportedError: nothing runs what the pass made.
        """
        name = module_pass.name
        try:
            module = at_sizes(module, chain.sizes)
            run = chain.tracer.run(module, chain.feeds, code, chain.sizes)
        except UnsupportedError:
            raise
        except EmitterFault as error:
            raise _emitter_fault(f"after pass '{name}'", error, chain) from None
        except ValueChanged as error:
            raise MismatchError(
                f"pass '{self._passes(name)}' changed {error.message}{chain.note}"
                f"{self._step(chain, module_pass)}",
                where=error.where,
            ) from None
        except NativeFault as error:
            raise MismatchError(
                f"after pass '{self._passes(name)}' the module fails to run: {error.message}"
                f"{chain.note}{self._step(chain, module_pass)}",
                where=error.where,
                hint=error.hint,
            ) from None
        except Exception as error:
            text = error.message if isinstance(error, TcoptError) else f"{error!r}"
            raise MismatchError(
                f"after pass '{self._passes(name)}' the module fails to run: {text}{chain.note}",
                where=error.where if isinstance(error, TcoptError) else None,
            ) from error
        self._check(chain, name, module, run)
        return run

    def finish(self, module: ModuleOp) -> None:
        seen = self._chains[0].tracer.seen
        for name in self.only:
            if name not in seen:
                hint = suggest(name, seen) or f"functions are {', '.join(sorted(seen))}"
                raise InputError(f"--only: there is no function @{name}", hint=hint)
        if not self._skipped:
            return
        names = ", ".join(name for name, _ in self._skipped)
        reason = self._skipped[-1][1]
        if self.allow_unchecked:
            _say(f"not checked: {names}")
            return
        raise UnsupportedError(
            f"what {names} made was not run, so it is not checked: {reason}",
            hint="--allow-unchecked accepts that",
        )

    def fork(self) -> ExecCheck:
        """The same check at the same point, to go on from there several times."""
        other = copy(self)
        other._skipped = list(self._skipped)
        other._chains = [replace(each, tracer=each.tracer.fork()) for each in self._chains]
        return other

    def _step(self, chain: LevelChain, module_pass: ModulePass) -> str:
        """The step of a schedule that is at fault, as the end of a message."""
        failed = chain.tracer.failed
        if self._state is None or failed is None:
            return ""
        step = first_wrong_step(self._ctx, self._state, module_pass, failed)
        return "" if step is None else f"; the first wrong step is '{step.name}': {step}"

    def _passes(self, last: str) -> str:
        """The passes since the last run, any of which may be the culprit."""
        return "' or '".join([*(name for name, _ in self._skipped), last])

    def _check(self, chain: LevelChain, pass_name: str, module: ModuleOp, run: Run) -> None:
        """Compare the values of a graph, and the results."""
        last = chain.tracer.last
        entries = functions(module)
        for name, results in run.results.items():
            # One that the runtime defines has no body any more.
            func = entries.get(name)
            tolerance = chain.tracer.tolerance
            if func is not None:
                tolerance = replace(tolerance, precision=precision_of(func), rounds=rounds(func))
            changed = changed_values(last.located, run.located, tolerance)
            expected = last.results[name]
            # Buffers that are only read come before those that are written.
            count = min(len(expected), len(results))
            pairs = zip(results[-count:], expected[-count:], strict=True) if count else ()
            for index, (value, reference) in enumerate(pairs):
                same = as_shape(reference, value.shape)
                text = difference(value, reference if same is None else same, tolerance)
                if text is not None:
                    first = next(iter(changed.values()), None)
                    culprit = first[0] if first else func and _giver(func, index)
                    raise self._mismatch(
                        pass_name, f"result {index} of @{name}", text + chain.note, culprit
                    )
            if self._moves_values:
                found = first_lasting(last.located, run.located, changed)
            else:
                found = next(iter(changed.values()), None)
            if found is not None:
                op, text = found
                raise self._mismatch(pass_name, f"a value inside @{name}", text + chain.note, op)

    def _mismatch(
        self, pass_name: str, what: str, text: str, culprit: Operation | None
    ) -> MismatchError:
        op_text = f"; the first value to differ is that of '{culprit.name}'" if culprit else ""
        where = place_of(culprit) if culprit else None
        return MismatchError(
            f"pass '{self._passes(pass_name)}' changed {what}: {text}{op_text}", where=where
        )


def _emitter_fault(when: str, error: EmitterFault, chain: LevelChain) -> MismatchError:
    return MismatchError(
        f"the {error.emitter} emitter makes wrong code {when}, although the kernel's text computes "
        f"the expected values: {error.message}{chain.note}",
        where=error.where,
    )


def enlarged(value: Array) -> Array:
    """An input of large magnitude; integers may be indices and stay."""
    return value * value.dtype.type(LARGE) if value.dtype.kind == "f" else value


def _may_be_large(module: ModuleOp, chains: Sequence[LevelChain]) -> bool:
    """Whether inputs of large magnitude are another set, and stay in the range of all floats."""
    normal, large = (chain.feeds for chain in chains)
    changes = any(
        a is not b for name in normal for a, b in zip(normal[name], large[name], strict=True)
    )
    precise = all(precision_of(func) <= 2.0**-24 for func in functions(module).values())
    return changes and precise


def _fingerprint(module: ModuleOp, code: PreparedCode) -> int:
    """What the module computes; its weights by name and place in memory."""
    from tcopt.dialects.graph.core.weights import weights_of

    store = weights_of(module) or {}
    found = functions(module)
    marks = tuple((name, code.fingerprints.alone(func)) for name, func in found.items())
    weights = tuple((name, id(store[name])) for name in store)
    return hash((marks, weights, str(module.attributes.get("tcopt.target"))))


def _giver(func: Operation, index: int) -> Operation | None:
    """The op that gives a result of a function on tensors."""
    last = func.regions[0].blocks[0].last_op
    if last is None or index >= len(last.operands):
        return None
    owner = last.operands[index].owner
    return owner if isinstance(owner, Operation) else None


def _entries(module: ModuleOp) -> dict[str, Operation]:
    found = functions(module)
    return {"main": found["main"]} if "main" in found else found


def _distinct(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """The same with names that differ, as the printer makes them."""
    seen: set[str] = set()
    found: list[TensorSpec] = []
    for spec in specs:
        name, number = spec.name, 0
        while name in seen:
            number += 1
            name = f"{spec.name}_{number}"
        seen.add(name)
        found.append(spec._replace(name=name))
    return found


def _given_for(
    specs: Sequence[TensorSpec], given: dict[str, Array], entries: int
) -> dict[str, Array]:
    """With several functions, a given value goes to those that have an input of its name."""
    if entries == 1:
        return given
    names = {spec.name for spec in specs}
    return {name: value for name, value in given.items() if name in names}


def _say(text: str) -> None:
    print(f"// exec: {text}", file=sys.stderr)
