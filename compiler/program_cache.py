"""Disk cache of whole programs, keyed by the content of models.

For each combination of model and options the cache holds

- a fact, stored with the kernels: which other files the model reads, and the outcome, which is a
  program, or the declarations of a model with open sizes,
- the program, as `Model.save` writes it, under a key that includes those files' content.

A key is a hash of the content of the model and its files, the options that programs depend on (see
`compiler.options`), the target's facts, and the compiler's version. Programs of files that change
during the compile are not stored. A lookup needs neither IR nor ONNX.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

from tcopt.compiler.content import Stamp, changed_since, hash_file, hash_source, stamp
from tcopt.compiler.disk_store import DiskStore
from tcopt.compiler.fingerprint import is_current, is_plain, program_fingerprint
from tcopt.compiler.kernel_cache import KernelCache, user_programs
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.outcome import Compiled, OpenModel, Outcome
from tcopt.compiler.stage_facts import rest_facts, rest_of
from tcopt.frontends.onnx.model.errors import MissingValuesError
from tcopt.frontends.onnx.model.options import Source
from tcopt.runtime.archive import read_program, write_program
from tcopt.runtime.description import signature_facts, signature_of, spec_facts, spec_of
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.whole_program import WholeProgram
from tcopt.support.arithmetic.room import LEAST_ROOM
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files.access import open_file
from tcopt.support.files.digests import DIGEST_BYTES
from tcopt.support.files.json_facts import MOST_BYTES, FactError, Facts, parse_facts
from tcopt.support.processes.threads import try_start
from tcopt.support.registries.registration import plugins_key
from tcopt.support.registries.target_registry import find_target
from tcopt.support.remarks import listening

_PROGRAM = "program"
_OPEN = "open"


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
        machine: everything that a program depends on in addition to the model, the options and the
            compiler.
        facts, programs: stores of the two kinds of entries.
    """

    def __init__(self, source: Source, machine: object, facts: KernelCache, programs: DiskStore):
        self.source = source
        self._machine = machine
        self._facts = facts
        self._programs = programs
        self._path = Path(source) if isinstance(source, (str, Path)) else None
        self._known: tuple[Stamp | None, str | None] | None = None

    @classmethod
    def of_user(cls, source: Source, options: CompileOptions) -> ProgramCache | None:
        """Return the user's cache; None if it is disabled."""
        kind, machine = find_target(options.target)
        known = kind.cache_facts(machine) if options.cache else None
        facts, programs = KernelCache.of_user(), user_programs()
        if known is None or facts is None or programs is None:
            return None
        return cls(source, known, facts, programs)

    def entry(self, options: CompileOptions) -> ProgramEntry | None:
        """Return the entry of a compile; None if the cache cannot serve it.

        Remarks are made during a compile, so the cache is bypassed while they are collected.
        """
        if options.timed:
            return None
        wait_for_writers()
        mark, content = self._content()
        if content is None or listening() or not is_plain():
            return None
        key = options.key(content, program_fingerprint(), plugins_key(), self._machine)
        folder = None if self._path is None else self._path.parent
        unchanged = partial(self._is_still, mark)
        return ProgramEntry(key, folder, self._facts, self._programs, unchanged)

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


def _program_facts(compiled: Compiled) -> dict[str, Any]:
    """Return the facts that complete a saved program, except the files."""
    # A signature covers only some tensors of a stage.
    facts = signature_facts(compiled.program.signature, compiled.program.symbols)
    facts["warnings"] = list(compiled.warnings)
    if compiled.rest is not None:
        facts["rest"] = rest_facts(compiled.rest)
        facts["outputs"] = [spec_facts(spec) for spec in compiled.outputs]
    return facts


def _completed(program: WholeProgram, files: Sequence[Path], facts: Facts) -> Compiled:
    """Complete a saved program by its facts."""
    program.signature = signature_of(
        facts, program.inputs, program.outputs, program.symbols, whole=False
    )
    warnings = facts.texts("warnings")
    if "rest" not in facts:
        return Compiled(program, files, warnings=warnings)
    return Compiled(
        program, files, rest_of(facts.facts("rest")), _specs(facts, "outputs"), warnings
    )


def _open_facts(found: OpenModel) -> dict[str, Any]:
    """Return the facts from which `_open_of` rebuilds a model with open sizes."""
    return {
        "inputs": [spec_facts(spec) for spec in found.inputs],
        "outputs": [spec_facts(spec) for spec in found.outputs],
        "deciding": list(found.deciding),
        "rooms": list(found.rooms),
        "message": found.missing.message,
        "where": found.missing.where or "",
    }


def _open_of(facts: Facts) -> OpenModel:
    names, message = facts.texts("deciding"), facts.text("message")
    where = facts.text("where") or None
    if names:
        missing = MissingValuesError(message, names, where=where)
    else:
        missing = InputError(message, where=where)
    # Ranges depend on the samples of a run.
    rooms = dict.fromkeys(facts.texts("rooms"), (1, LEAST_ROOM))
    return OpenModel(_specs(facts, "inputs"), _specs(facts, "outputs"), missing, names, rooms)


def _specs(facts: Facts, name: str) -> list[TensorSpec]:
    return [spec_of(each) for each in facts.items(name)]


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

    def outcome(self) -> Outcome | None:
        """Return the cached result; None if it is missing or damaged."""
        data = self._facts.get(self._key)
        if data is None:
            return None
        try:
            facts = parse_facts(data)
            return self._program(facts) if facts.text("outcome") == _PROGRAM else _open_of(facts)
        except FactError:
            self._facts.discard(self._key)
            return None

    def _program(self, facts: Facts) -> Compiled | None:
        files = facts.texts("files")
        key = self._program_key(files)
        expected = None if key is None else self._facts.get(key)
        if key is None or expected is None or not self._programs.has(key):
            return None
        path = self._programs.path(key)
        try:
            if _digest_in(path) != expected:
                raise InputError(f"{path} has changed since it was stored")
            # `read_program` checks that the whole file has this digest.
            program = read_program(path)
            paths = [] if self._folder is None else [self._folder / name for name in files]
            stored = _completed(program, paths, facts)
        except (TcoptError, FactError):
            self._programs.discard(key)
            return None
        self._programs.touch(key)
        program.cached = True
        return stored

    def keep(self, found: Outcome) -> None:
        """Store the result of a compile that began after the entry was created."""
        if isinstance(found, Compiled):
            self._keep_program(found)
        elif self._may_keep():
            self._keep({"outcome": _OPEN, **_open_facts(found)})

    def _keep_program(self, compiled: Compiled) -> None:
        facts = _program_facts(compiled)
        if len(json.dumps(facts)) > MOST_BYTES // 2:
            return
        program = copy(compiled.program)
        program.signature = None
        paths = compiled.files
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

    def _may_keep(self) -> bool:
        """Whether entries can be stored, and the model and the compiler still match the key."""
        return self._facts.is_usable and self._unchanged() and is_plain()

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
