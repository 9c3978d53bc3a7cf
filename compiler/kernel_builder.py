"""Builds all kernels of a model: from the cache, in this process, or in worker processes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any

from xdsl.dialects.builtin import (
    ContainerType,
    FixedBitwidthType,
    FunctionType,
    ModuleOp,
    ShapedType,
)

from tcopt.compiler.fingerprint import fingerprint, is_plain, obstacles
from tcopt.compiler.kernel import Kernel, describe_place
from tcopt.compiler.kernel_cache import KernelCache
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.pipeline import kernel_phases
from tcopt.compiler.units import CompileUnit, KernelFunction, compile_unit, make_unit
from tcopt.compiler.workers import Workers
from tcopt.dialects.sched import SequenceOp
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.dialects.te import ComputeOp
from tcopt.support.ir.origins import node_names
from tcopt.support.processes.cores import usable_cores
from tcopt.support.registries.registration import plugins_key
from tcopt.support.remarks import Remark, listening, notice, replay
from tcopt.support.syntax.canonical_text import CanonicalText

_WORKERS_ENVIRONMENT = "TCOPT_WORKERS"
_MOST_WORKERS = 7
_FEWEST_OPS = 24
"""Smaller models are compiled here before a worker could have started."""

_FEWEST_UNITS = 2
_REASONS_SHOWN = 3
_REDUCTION_WORK = 8
"""Approximate compile time of a reduction relative to an elementwise stage."""


def most_workers() -> int:
    """Default number of worker processes: `TCOPT_WORKERS`, or one for each other core."""
    try:
        return max(0, int(os.environ.get(_WORKERS_ENVIRONMENT, "")))
    except ValueError:
        return min(usable_cores() - 1, _MOST_WORKERS)


class KernelBuilder:
    """Compiles the kernels of one model; a context manager that ends its workers on exit.

    Args:
        options: those with `cache` look kernels up in the user's cache and store them there. The
            default of `workers` is `TCOPT_WORKERS`, or one for each other core, if the model is
            large enough.

    Attributes:
        compiled: number of kernels that were not cached.
    """

    def __init__(self, options: CompileOptions):
        self.phases = kernel_phases(options.phases)
        self.compiled = 0
        plain = _tell_reasons()
        self._cache = KernelCache.of_user() if plain and options.cache else None
        self._wanted = options.workers if plain else 0
        self._workers = Workers(0)
        self._salt = f"{fingerprint()} {plugins_key()} {' '.join(map(str, self.phases))}"
        self._model_key = ""

    def __enter__(self) -> KernelBuilder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workers.stop()

    def expect(self, module: ModuleOp) -> None:
        """Prepare for the kernels of an imported model by starting workers if they pay off."""
        self._model_key = self._key_of(module)
        count = self._wanted
        if count is None:
            worthwhile = _operators(module) >= _FEWEST_OPS and not self._all_known()
            count = most_workers() if worthwhile else 0
        self._workers = Workers(count)

    def build(
        self,
        functions: Mapping[str, KernelFunction],
        module: ModuleOp,
        sequences: Mapping[str, SequenceOp] | None = None,
    ) -> dict[str, Kernel]:
        """Return the kernels by the names of their functions.

        Args:
            functions: functions to compile; the ops may be modified.
            module: the module they come from, which has the target.
            sequences: given schedules by function; the others are scheduled by rules.
        Raises:
            TcoptError: a function cannot be compiled.
        """
        texts = CanonicalText(module)
        nodes = {
            name: _nodes_of(f) for name, f in functions.items() if TARGET_ATTRIBUTE in f.attributes
        }
        forms = {name: f.function_type for name, f in functions.items()}
        places = {name: describe_place(function) for name, function in functions.items()}
        sequences = sequences or {}
        units = {
            n: make_unit(f, module, texts, self._salt, sequences.get(n))
            for n, f in functions.items()
        }
        distinct = {unit.key: unit for unit in units.values()}
        found = self._look_up(distinct)
        missing = sorted(
            (unit for key, unit in distinct.items() if key not in found), key=_work, reverse=True
        )
        made = self._compile(missing)
        self.compiled += len(made)
        self._store(made, distinct)
        whole = found | made
        kernels = {n: whole[unit.key].named(nodes.get(n, ())) for n, unit in units.items()}
        for name, kernel in kernels.items():
            kernel.replay_remarks(name, places[name])
            if kernel.host_call is not None and listening():
                _tell_cycles(kernel.host_call, forms[name], name, places[name])
        return kernels

    def _compile(self, units: Sequence[CompileUnit]) -> dict[str, Kernel]:
        if len(units) < _FEWEST_UNITS:
            self._workers.stop()
        return self._workers.share(units, self.phases, lambda u: compile_unit(u, self.phases))

    def _look_up(self, units: Mapping[str, CompileUnit]) -> dict[str, Kernel]:
        found: dict[str, Kernel] = {}
        if self._cache is None:
            return found
        for key, unit in units.items():
            data = self._cache.get(unit.kept_as)
            if data is None:
                continue
            try:
                found[key] = Kernel.from_bytes(data)
            except ValueError:
                self._cache.discard(unit.kept_as)
        return found

    def _store(self, made: Mapping[str, Kernel], all_: Mapping[str, CompileUnit]) -> None:
        shared = bool(self._workers.processes)
        if self._cache is None or not made or not is_plain(on_disk=shared):
            return
        for key, kernel in made.items():
            self._cache.put(all_[key].kept_as, kernel.to_bytes())
        kept = (unit.kept_as for unit in all_.values())
        self._cache.put(self._model_key, "\n".join(kept).encode())
        self._cache.trim()

    def _key_of(self, module: ModuleOp) -> str:
        """Return the key under which the cache lists the kernels of a model."""
        state = hashlib.blake2b(self._salt.encode(), digest_size=20)
        state.update(CanonicalText.of_model(module).encode())
        return state.hexdigest()

    def _all_known(self) -> bool:
        """Whether the cache is known to contain every kernel of the model."""
        if self._cache is None:
            return False
        listed = self._cache.get(self._model_key)
        return listed is not None and all(map(self._cache.has, listed.decode().split()))


def _tell_reasons() -> bool:
    """Whether the compiler is unmodified; if not, report in a remark why caching is off."""
    reasons = obstacles()
    first = next(reasons, None)
    if first is None:
        return True
    if listening():
        listed = ", ".join((first, *islice(reasons, _REASONS_SHOWN - 1)))
        notice("cache", "kernels", f"neither cached nor compiled in other processes: {listed}")
    return False


def _nodes_of(function: KernelFunction) -> list[tuple[str, ...]]:
    """Return the names of the nodes of each op of a function."""
    return [node_names(op.location) for op in function.walk()]


def _tell_cycles(
    call: tuple[str, Mapping[str, Any]], form: FunctionType, name: str, place: str
) -> None:
    """Report how an accelerator's program spends its cycles, as a remark."""
    from tcopt.backends.accelerator.report import report_of_call

    types = [type_ for type_ in (*form.inputs, *form.outputs) if isinstance(type_, ContainerType)]
    shapes = [tuple(type_.get_shape()) for type_ in types if isinstance(type_, ShapedType)]
    elements = [type_.get_element_type() for type_ in types]
    bits = [each.bitwidth for each in elements if isinstance(each, FixedBitwidthType)]
    report = report_of_call(*call, shapes, bits)
    if report is not None:
        replay([Remark("simulator", f"@{name}", place, report.summary())])


def _operators(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())


def _work(unit: CompileUnit) -> int:
    """Estimate the compile time of a unit, so that the longest are started first."""
    stages = [op for op in unit.function.walk() if isinstance(op, ComputeOp)]
    return sum(_REDUCTION_WORK if stage.is_reduction else 1 for stage in stages)
