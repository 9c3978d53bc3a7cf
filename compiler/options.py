"""The options of a compile, which travel as one object through all steps.

Each field declares whether programs depend on it. Cache keys are derived from these declarations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from tcopt.compiler.pipeline import pipeline
from tcopt.compiler.report import Progress
from tcopt.compiler.tuned import Lock, Tuned, find_lock, with_lock
from tcopt.frontends.onnx.model.options import CODE, NO_CODE, ImportOptions, Rooms, Source
from tcopt.runtime.kept_programs import PROGRAMS_KEPT
from tcopt.runtime.run_options import DeviceName, check_count
from tcopt.support.accuracy import DEFAULT, PRECISE
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.size_ranges import given_size
from tcopt.support.data.strings import is_text
from tcopt.support.pipelines.phases import Phase, with_passes
from tcopt.support.registries.target_registry import HOST_KIND, find_target
from tcopt.targets.interface import TargetKind


@dataclass(frozen=True)
class CompileOptions(ImportOptions):
    """Options of a compile; see `tcopt.compile` for those that are its arguments.

    Attributes:
        lock: the lock file to apply.
        timed: whether the program records the times of its kernels and the remarks of its compile.
        donate: outputs that may overwrite an input, by the name of the input.
        device: device that models run on; `target` names its machine.
    """

    rooms: Rooms | None = field(default_factory=dict[str, "Range | None"], metadata=CODE)
    target: str = field(default=HOST_KIND, metadata=CODE)
    accuracy: str = field(default=DEFAULT, metadata=CODE)
    precision: str = field(default=PRECISE, metadata=CODE)
    passes: Mapping[str, str] = field(default_factory=dict[str, str], metadata=CODE)
    lock: Lock | None = field(default=None, metadata=CODE)
    timed: bool = field(default=False, metadata=CODE)
    donate: Mapping[str, str] = field(default_factory=dict[str, str], metadata=CODE)
    device: DeviceName | None = field(default=None, metadata=NO_CODE)
    programs_kept: int = field(default=PROGRAMS_KEPT, metadata=NO_CODE)
    progress: Progress | None = field(default=None, metadata=NO_CODE)
    cache: bool = field(default=True, metadata=NO_CODE)
    workers: int | None = field(default=None, metadata=NO_CODE)

    @classmethod
    def of(
        cls,
        source: Source | None = None,
        target: str = HOST_KIND,
        *,
        device: DeviceName | None = None,
        plugins: Iterable[str | Path] = (),
        tuned: Tuned = True,
        locked: bool = False,
        **given: Any,
    ) -> CompileOptions:
        """Return the options for arguments of `tcopt.compile`, and check them.

        Args:
            source: the model, to find its lock file.
            given: other arguments; None stands for the default.
        Raises:
            InputError: a plugin, the lock file or the machine is missing, or a count is invalid.
            UnsupportedError: the target, accuracy or precision does not exist.
        """
        if plugins:
            from tcopt.support.registries.plugins import load_plugins

            load_plugins(plugins)
        if device is not None:
            target = _target_on(target, device)
        lock = None if source is None else find_lock(source, tuned, locked=locked)
        known = {name: value for name, value in given.items() if value is not None}
        if "dims" in known:
            known["dims"] = {n: given_size(n, size) for n, size in known["dims"].items()}
        options = cls(target=target, device=device, lock=lock, **known)
        check_count("programs kept", options.programs_kept)
        _ = options.phases
        return options

    @property
    def kind(self) -> TargetKind:
        """The kind of the target."""
        return find_target(self.target)[0]

    @property
    def computes_sizes(self) -> bool:
        """Whether programs of the target may compute sizes, and have loops that data ends."""
        return self.kind.computes_sizes

    @cached_property
    def phases(self) -> list[Phase]:
        """The pipeline, with the additional passes and the pass that applies the lock file."""
        added = {place: Phase(place, text).passes for place, text in self.passes.items()}
        known = with_passes(pipeline(self.target, self.accuracy, self.precision), added)
        phases = with_lock(known, self.lock)
        return self.kind.timed_pipeline(phases) if self.timed else phases

    def key(self, *facts: object) -> str:
        """Return a hash of the options that programs depend on.

        Args:
            facts: everything else that a program depends on.
        """
        own = [
            (each.name, _plain(getattr(self, each.name)))
            for each in fields(self)
            if each.metadata["changes_code"]
        ]
        text = repr((facts, own)).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=20).hexdigest()


def _target_on(target: str, device: DeviceName) -> str:
    """Return a target with the machine that a device is, if it names none."""
    kind, machine = find_target(target)
    machine = machine or kind.machine_of(device)
    return f"{kind.name}:{machine}" if machine else target


def _plain(value: Any) -> object:
    """Return a value whose `repr` is equal for equal options, and different for others."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, bool | str | bytes | float | np.dtype):
        return value
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        if is_text(array.dtype):
            return array.shape, array.tolist()
        digest = hashlib.blake2b(array.tobytes(), digest_size=20).hexdigest()
        return array.shape, array.dtype.str, digest
    if is_dataclass(value):
        return [(each.name, _plain(getattr(value, each.name))) for each in fields(value)]
    if isinstance(value, Mapping):
        return sorted((key, _plain(each)) for key, each in value.items())
    return [_plain(each) for each in value] if isinstance(value, Iterable) else value
