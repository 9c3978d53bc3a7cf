"""The lock file of a model: found beside it, part of the pipeline and of the cache's keys.

Nothing here imports xDSL, as a program that the cache has is found without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tcopt.compiler.content import Source
from tcopt.support.errors import InputError
from tcopt.support.file_contents import digest_of_content
from tcopt.support.pass_specs import Passes, PassSpec
from tcopt.support.phases import Phase

SUFFIX = ".tuned.mlir"

Tuned = bool | str | Path
"""What `tcopt.compile(tuned=...)` takes: whether to look for a lock file, or which to take."""

_SIMPLIFIED = "canonicalize"
"""The pass after which operators are those that passes with choices see."""

_FIRST_OF_GRAPH = "set-target"


@dataclass(frozen=True)
class Lock:
    """A lock file that is to be obeyed.

    Attributes:
        locked: whether all kernels must be in it.
        digest: a hash of what it holds.
    """

    path: Path
    locked: bool
    digest: str

    @property
    def spec(self) -> PassSpec:
        """The pass that obeys it."""
        given = {"locked": True} if self.locked else {}
        return PassSpec.of("apply-tuning", file=str(self.path), digest=self.digest, **given)


def lock_beside(model: str | Path) -> Path:
    """Where the lock file of a model is: `resnet50.tuned.mlir` for `resnet50.onnx`."""
    path = Path(model)
    return path.parent / (path.stem + SUFFIX)


def find_lock(source: Source, tuned: Tuned, *, locked: bool = False) -> Lock | None:
    """The lock file for a model; None if there is none, or none is wanted.

    Args:
        tuned: whether to look beside the model, or the file to take.
        locked: whether there has to be one, with an entry for every kernel.
    Raises:
        InputError: there is none, and there has to be.
    """
    if tuned is False:
        if locked:
            raise InputError("locked means that schedules are a lock file's, and none is wanted")
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
    """A pipeline that obeys a lock file, where operators are simple, and where kernels are made."""
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
    """The passes of the graph after which operators are simple, and choices about them are read."""
    names = [each.name for each in passes]
    for name in (_SIMPLIFIED, _FIRST_OF_GRAPH):
        if name in names:
            return passes[: names.index(name) + 1]
    return ()


def _inserted(passes: Passes, spec: PassSpec) -> Passes:
    """Passes of the graph, with one more where operators are simple."""
    before = before_choices(passes)
    return (*before, spec, *passes[len(before) :])
