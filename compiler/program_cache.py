"""Disk cache of whole programs, keyed by the content of models.

For each combination of model, options and shapes the cache holds

- a fact, stored with the kernels: which other files the model reads, and the outcome, which is a
  program, or the information that shapes or values of inputs are needed first,
- the program, as `Model.save` writes it, under a key that includes those files' content.

A key is a hash of the content of the model and its files, the options, the target's facts, the
given shapes and values, and the compiler's version. Programs of files that change during the
compile are not stored. A lookup needs neither IR nor ONNX.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from tcopt.compiler.content import Source, Stamp, changed_since, hash_file, hash_source, stamp
from tcopt.compiler.disk_store import DiskStore
from tcopt.compiler.fingerprint import is_current, is_plain, program_fingerprint
from tcopt.compiler.kernel_cache import KernelCache, user_programs
from tcopt.compiler.stage_facts import rest_facts, rest_of, stage_facts
from tcopt.frontends.onnx.model.stage import Rest, Stage
from tcopt.runtime.archive import read_program, write_program
from tcopt.runtime.description import signature_facts, signature_of, spec_facts, spec_of
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.whole_program import WholeProgram
from tcopt.support.data.strings import is_text
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files.access import open_file
from tcopt.support.files.digests import DIGEST_BYTES
from tcopt.support.files.json_facts import MOST_BYTES, FactError, Facts, parse_facts
from tcopt.support.processes.threads import try_start
from tcopt.support.registries.registration import plugins_key
from tcopt.support.remarks import listening

Array = NDArray[Any]
T = TypeVar("T")

_PROGRAM = "program"
_OPEN = "open"
_VALUES = "values"


_writers: list[Thread] = []
"""Threads that are storing programs of this process."""


def wait_for_writers() -> None:
    """Wait until all programs of this process are stored."""
    for writer in tuple(_writers):
        writer.join()
        with suppress(ValueError):  # Another thread waits as well and has removed it.
            _writers.remove(writer)


class ProgramCache:
    """Cached results of earlier compiles of one model.

    Args:
        source: the model.
        settings: everything else that a program depends on.
        facts, programs: stores of the two kinds of entries.
    """

    def __init__(
        self, source: Source, settings: Sequence[object], facts: KernelCache, programs: DiskStore
    ):
        self.source = source
        self._settings = repr((program_fingerprint(), *settings))
        self._facts = facts
        self._programs = programs
        self._path = Path(source) if isinstance(source, (str, Path)) else None
        self._known: tuple[Stamp | None, str | None] | None = None

    @classmethod
    def of_user(cls, source: Source, settings: Sequence[object]) -> ProgramCache | None:
        """Return the user's cache; None if it is disabled."""
        facts, programs = KernelCache.of_user(), user_programs()
        if facts is None or programs is None:
            return None
        return cls(source, settings, facts, programs)

    def entry(
        self,
        shapes: Mapping[str, Any],
        values: Mapping[str, Array],
        stage: Stage | None = None,
    ) -> ProgramEntry | None:
        """Return the entry for some inputs; None if the cache cannot serve this compile.

        Remarks are made during a compile, so the cache is bypassed while they are collected.

        Args:
            stage: the part of the model to compile; by default the whole model.
        """
        wait_for_writers()
        mark, content = self._content()
        if content is None or listening() or not is_plain():
            return None
        settings = f"{content} {self._settings} {plugins_key()}"
        state = hashlib.blake2b(settings.encode(), digest_size=20)
        state.update(repr([(n, _plain(s)) for n, s in sorted(shapes.items())]).encode())
        for name, value in sorted(values.items()):
            array = np.asarray(value)
            state.update(repr((name, array.shape, array.dtype.str)).encode())
            state.update(
                repr(array.tolist()).encode("utf-8", "surrogatepass")
                if is_text(array.dtype)
                else array.tobytes()
            )
        if stage is not None:
            state.update(f"stage {json.dumps(stage_facts(stage))}".encode("utf-8", "surrogatepass"))
        folder = None if self._path is None else self._path.parent
        unchanged = partial(self._is_still, mark)
        return ProgramEntry(state.hexdigest(), folder, self._facts, self._programs, unchanged)

    @property
    def content(self) -> str | None:
        """Hash of the model; None before the first entry is requested."""
        return None if self._known is None else self._known[1]

    def _content(self) -> tuple[Stamp | None, str | None]:
        """Return the stamp of the model's file and a hash of the model, updated after a change."""
        mark = None if self._path is None else stamp(self._path)
        # A decoded model in memory may be modified between two compiles.
        fixed = isinstance(self.source, bytes) if self._path is None else mark is not None
        if self._known is None or not fixed or self._known[0] != mark:
            self._known = mark, hash_source(self.source)
        return self._known

    def _is_still(self, mark: Stamp | None) -> bool:
        """Whether the model is unchanged since it was hashed."""
        return self._path is None or stamp(self._path) == mark


def _digest_in(path: Path) -> bytes:
    """Return the digest at the end of a stored program."""
    try:
        with open_file(path, follow=False) as stream:
            stream.seek(-DIGEST_BYTES, os.SEEK_END)
            return stream.read(DIGEST_BYTES)
    except OSError:
        return b""


def _plain(shape: Any) -> object:
    """Convert a shape, or the shapes of a sequence, to plain integers."""
    return [_plain(part) for part in shape] if isinstance(shape, Iterable) else shape and int(shape)


@dataclass(frozen=True)
class StoredProgram:
    """A compiled program.

    Attributes:
        rest: the part of the model that is compiled once this program has run; None if none.
        outputs: outputs of this program and the rest together; empty without a rest.
        warnings: placement warnings of the compile, as text.
    """

    program: WholeProgram
    rest: Rest | None = None
    outputs: Sequence[TensorSpec] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class _Companion:
    """Facts that complete a saved program to a `StoredProgram`, cached under a separate key.

    Attributes:
        facts: include the program's signature, which for a stage covers only some tensors.
        files: other files of the model, such as those of external data.
        rest: the stages that follow; None for a whole model.
        outputs: the model's outputs; empty for a whole model.
        warnings: see `StoredProgram`.
    """

    facts: Facts
    files: list[str]
    rest: Rest | None
    outputs: Sequence[TensorSpec]
    warnings: Sequence[str]

    @staticmethod
    def facts_of(compiled: StoredProgram) -> dict[str, Any]:
        """Return the facts that `of` reads, except the files."""
        facts = signature_facts(compiled.program.signature)
        facts["warnings"] = list(compiled.warnings)
        if compiled.rest is not None:
            facts["rest"] = rest_facts(compiled.rest)
            facts["outputs"] = [spec_facts(spec) for spec in compiled.outputs]
        return facts

    @staticmethod
    def of(facts: Facts) -> _Companion:
        """Read the facts of an entry."""
        files, warnings = facts.texts("files"), facts.texts("warnings")
        if "rest" not in facts:
            return _Companion(facts, files, None, [], warnings)
        outputs = [spec_of(each) for each in facts.items("outputs")]
        return _Companion(facts, files, rest_of(facts.facts("rest")), outputs, warnings)

    def added_to(self, program: WholeProgram) -> StoredProgram:
        """Set the program's signature, and combine it with the rest."""
        sides = program.inputs, program.outputs
        program.signature = signature_of(self.facts, *sides, whole=False)
        return StoredProgram(program, self.rest, self.outputs, self.warnings)


class ProgramEntry:
    """The cache entry of one compile."""

    def __init__(
        self,
        key: str,
        folder: Path | None,
        facts: KernelCache,
        programs: DiskStore,
        unchanged: Callable[[], bool],
    ):
        self._key = key
        self._folder = folder
        self._facts = facts
        self._programs = programs
        self._unchanged = unchanged
        self._since = time.time()
        self.files: list[Path] = []
        """Files that the program was read from in addition to the model, once known."""

    def program(self) -> StoredProgram | None:
        """Return the cached program; None if it is missing or damaged."""

        companion = self._known(_PROGRAM, _Companion.of)
        if companion is None:
            return None
        files = companion.files
        key = self._program_key(files)
        self.files = [] if self._folder is None else [self._folder / name for name in files]
        expected = None if key is None else self._facts.get(key)
        if key is None or expected is None or not self._programs.has(key):
            return None
        path = self._programs.path(key)
        try:
            if _digest_in(path) != expected:
                raise InputError(f"{path} has changed since it was stored")
            # `read_program` checks that the whole file has this digest.
            program = read_program(path)
            stored = companion.added_to(program)
        except (TcoptError, FactError):
            self._programs.discard(key)
            return None
        self._programs.touch(key)
        program.cached = True
        return stored

    def open_inputs(self) -> tuple[list[TensorSpec], list[TensorSpec]] | None:
        """Return the inputs and outputs of a model that is known to be compiled at run time."""

        def specs(facts: Facts) -> tuple[list[TensorSpec], list[TensorSpec]]:
            inputs, outputs = ([spec_of(s) for s in facts.items(n)] for n in ("inputs", "outputs"))
            return inputs, outputs

        return self._known(_OPEN, specs)

    def missing_values(self) -> tuple[str, list[str], str | None] | None:
        """Return the arguments of the MissingValuesError that the compile is known to raise."""

        def missing(facts: Facts) -> tuple[str, list[str], str | None]:
            return facts.text("message"), facts.texts("names"), facts.text("where") or None

        return self._known(_VALUES, missing)

    def keep_program(self, compiled: StoredProgram, files: Iterable[Path]) -> None:
        """Store a program that was compiled after the entry was created.

        Args:
            files: files that were read in addition to the model's.
        """
        facts = _Companion.facts_of(compiled)
        if len(json.dumps(facts)) > MOST_BYTES // 2:
            return
        program = copy(compiled.program)
        program.signature = None
        paths = sorted(set(files))
        if changed_since(paths, self._since) or not self._may_keep():
            return
        folder = (self._folder or Path()).absolute()
        names = [path.relative_to(folder).as_posix() for path in paths]
        key = self._program_key(names)
        if key is None:
            return

        def write() -> None:
            if not is_current(on_disk=True):  # Workers may have imported the changed files.
                return
            size = program.size
            digests: list[bytes] = []

            def fill(stream: BinaryIO) -> None:
                write_program(stream, program)
                stream.seek(-DIGEST_BYTES, os.SEEK_END)
                digests.append(stream.read(DIGEST_BYTES))

            self._programs.write(key, fill, size)
            self._programs.trim()
            if not digests:
                return
            # All facts carry the user's authentication code, so the digest authenticates the
            # program.
            self._facts.put(key, digests[0])
            self._keep({"outcome": _PROGRAM, "files": names, **facts})

        # The caller need not wait for the disk; the process ends after this thread does.
        writer = Thread(target=write, name="tcopt-keep-program")
        if try_start(writer):
            _writers.append(writer)
        else:
            write()

    def keep_open(self, inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec]) -> None:
        """Store that the model is compiled at run time."""
        if self._may_keep():
            sides = {"inputs": inputs, "outputs": outputs}
            specs = {side: [spec_facts(spec) for spec in given] for side, given in sides.items()}
            self._keep({"outcome": _OPEN, **specs})

    def keep_missing_values(self, message: str, names: Iterable[str], where: str | None) -> None:
        """Store that values of inputs must be given."""
        if self._may_keep():
            facts = {"message": message, "names": list(names), "where": where or ""}
            self._keep({"outcome": _VALUES, **facts})

    def _may_keep(self) -> bool:
        """Whether the model and the compiler still match the key."""
        return self._unchanged() and is_plain()

    def _known(self, outcome: str, read: Callable[[Facts], T]) -> T | None:
        """Return the stored facts about a compile with this outcome; None if there are none."""
        data = self._facts.get(self._key)
        if data is None:
            return None
        try:
            facts = parse_facts(data)
            return read(facts) if facts.text("outcome") == outcome else None
        except FactError:
            self._facts.discard(self._key)
            return None

    def _keep(self, facts: Mapping[str, Any]) -> None:
        self._facts.put(self._key, json.dumps(facts).encode())
        self._facts.trim()

    def _program_key(self, files: Iterable[str]) -> str | None:
        """Return the key of the program for the files' current content; None if one is gone."""
        state = hashlib.blake2b(f"program {self._key}".encode(), digest_size=20)
        for name in files:
            content = None if self._folder is None else hash_file(self._folder / name)
            if content is None:
                return None
            state.update(f"{content} {name}\n".encode())
        return state.hexdigest()
