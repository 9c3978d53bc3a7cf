"""The lock file of a model: how it is found, and its place in the pipeline and in cache keys.

Nothing here imports xDSL, because loading a cached program does not need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tcopt.frontends.onnx.model.options import Source
from tcopt.support.errors import InputError
from tcopt.support.files.file_contents import digest_of_content
from tcopt.support.pipelines.pass_specs import Passes, PassSpec
from tcopt.support.pipelines.phases import Phase

SUFFIX = ".tuned.mlir"

Tuned = bool | str | Path
"""Argument `tuned` of `tcopt.compile`: whether to look for a lock file, or its path."""

_SIMPLIFIED = "canonicalize"
"""Pass after which operators are in the simple form on which tuned passes decide."""

_FIRST_OF_GRAPH = "set-target"


@dataclass(frozen=True)
class Lock:
    """A lock file to apply.

    Attributes:
        locked: whether every kernel must have an entry in it.
        digest: hash of its content.
    """

    path: Path
    locked: bool
    digest: str

    @property
    def spec(self) -> PassSpec:
        """Specification of the pass that applies the lock file."""
        given = {"locked": True} if self.locked else {}
        return PassSpec.of("apply-tuning", file=str(self.path), digest=self.digest, **given)


def lock_beside(model: str | Path) -> Path:
    """Return the path of a model's lock file: `resnet50.tuned.mlir` for `resnet50.onnx`."""
    path = Path(model)
    return path.parent / (path.stem + SUFFIX)


def find_lock(source: Source, tuned: Tuned, *, locked: bool = False) -> Lock | None:
    """Return the lock file for a model; None if there is none or tuning is disabled.

    Args:
        tuned: whether to look next to the model; or the path of the file.
        locked: whether there must be a file, with an entry for every kernel.
    Raises:
        InputError: a required file is missing.
    """
    if tuned is False:
        if locked:
            raise InputError("locked=True needs a lock file, but tuned=False disables it")
        return None
    if tuned is True:
        path = lock_beside(source) if isinstance(source, (str, Path)) else None
        if path is None or not path.is_file():
            if locked:
                what = "for a model in memory" if path is None else f"'{path}'"
                raise InputError(
                    f"there is no lock file {what}", hint="tune the model, or name the file"
                )
            return None
    else:
        path = Path(tuned)
    return Lock(path.absolute(), locked, digest_of_content(path))


def with_lock(phases: Sequence[Phase], lock: Lock | None) -> list[Phase]:
    """Insert the pass that applies a lock file: after simplification, and before loops."""
    if lock is None:
        return list(phases)
    spec, told = lock.spec, list[Phase]()
    for phase in phases:
        if phase.name == "graph":
            phase = Phase(phase.name, _inserted(phase.passes, spec))
        elif phase.name == "te":
            phase = Phase(phase.name, (*phase.passes, spec))
        told.append(phase)
    return told


def before_choices(passes: Passes) -> Passes:
    """Return the graph passes that run before any pass with tunable choices."""
    names = [each.name for each in passes]
    for name in (_SIMPLIFIED, _FIRST_OF_GRAPH):
        if name in names:
            return passes[: names.index(name) + 1]
    return ()


def _inserted(passes: Passes, spec: PassSpec) -> Passes:
    """Insert a pass into the graph passes, after simplification."""
    before = before_choices(passes)
    return (*before, spec, *passes[len(before) :])
