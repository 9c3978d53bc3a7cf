"""Writing of kits: `Model.export_kit`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import tcopt
from tcopt.backends.identifiers import distinct
from tcopt.backends.llvm.pool.text import pool_object
from tcopt.runtime.kit.cpu_features import required_bits
from tcopt.runtime.kit.descriptor import descriptor_text, symbol_of
from tcopt.runtime.kit.image import Image, weights_image
from tcopt.runtime.kit.package import (
    cmake_text,
    cmake_version_text,
    header_text,
    pkg_config_text,
)
from tcopt.runtime.kit.toolchain import Toolchain
from tcopt.runtime.loading import ENTRY_SYMBOL
from tcopt.runtime.program import Program
from tcopt.support.data.strings import is_text
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.files.access import as_path, cannot_write, open_outputs
from tcopt.support.machines.cpu_target import CpuTarget

if TYPE_CHECKING:
    from tcopt.runtime.model import Model

_HERE = Path(__file__).parent
_INCLUDE = _HERE / "include"
_SOURCES = sorted((_HERE / "c").glob("*.c"))
_POOL_SYMBOL = "tcopt_pool_parallel"
_LIBRARIES = ("m", "pthread")

LIBRARY_SUFFIXES = (".a", ".so")
"""Endings of the files that `write_library` writes."""

_IMAGE = """.section .rodata
.balign 64
.globl tcopt_image
.hidden tcopt_image
tcopt_image:
.incbin "image"
.section .note.GNU-stack,"",%progbits
"""


@dataclass(frozen=True)
class KitOptions:
    """Choices of a kit.

    Attributes:
        name: the name of the model in file names and in C.
        embedded: whether the weights are part of the libraries, instead of a file of their own.
        freestanding: whether the runtime is compiled without a C library, for systems that have
            neither files nor threads.
    """

    name: str
    embedded: bool = True
    freestanding: bool = False


def write_kit(folder: Path, programs: Sequence[Program], options: KitOptions) -> None:
    """Write a kit into a folder, which is created if it does not exist.

    After an error, all files are as they were before.

    Args:
        programs: programs of one model for several CPUs of one architecture.
    Raises:
        InputError: the folder is not writable, or the programs are not of the same model.
        UnsupportedError: a program needs Python when it runs, or a feature that is not known.
        BackendError: there is no C compiler, or it fails.
    """
    name = kit_name(options.name)
    programs, image, libraries = _compiled(programs, options, f"lib{name}.so")
    needed = () if options.freestanding else _LIBRARIES
    version = tcopt.__version__
    files = {f"lib/lib{name}{suffix}": data for suffix, data in libraries.items()}
    if not options.embedded:
        files[f"lib/{name}.weights"] = b"".join(image.content)
    files |= {f"include/{path.name}": path.read_bytes() for path in sorted(_INCLUDE.iterdir())}
    texts = {
        f"include/{name}.h": header_text(name, programs),
        f"lib/cmake/{name}/{name}Config.cmake": cmake_text(
            name, needed, shared=not options.freestanding
        ),
        f"lib/cmake/{name}/{name}ConfigVersion.cmake": cmake_version_text(version),
        f"lib/pkgconfig/{name}.pc": pkg_config_text(name, version, needed),
    }
    _write(folder, files | {path: text.encode() for path, text in texts.items()})


def write_library(path: Path, model: Model) -> None:
    """Write a static or shared library with its weights, and the headers next to it.

    Args:
        path: a file that ends in one of `LIBRARY_SUFFIXES`; `libnet.so` contains the model `net`.
    Raises:
        TcoptError: as for `write_kit`.
    """
    name = kit_name(path.stem.removeprefix("lib"))
    programs, _, libraries = _compiled([_program_of(model)], KitOptions(name), path.name)
    header = (_INCLUDE / "tcopt.h").read_bytes()
    texts = {"tcopt.h": header, f"{name}.h": header_text(name, programs).encode()}
    _write(path.parent, {path.name: libraries[path.suffix], **texts})


def _program_of(model: Model) -> Program:
    program = model.program
    if not isinstance(program, Program):
        raise UnsupportedError(
            f"a model for target {program.kind} cannot be a C library", hint="compile it for a CPU"
        )
    return program


def _compiled(
    programs: Sequence[Program], options: KitOptions, shared: str
) -> tuple[list[Program], Image, dict[str, bytes]]:
    """Return the programs, the best CPU first, their weights, and the libraries by suffix.

    Args:
        shared: the file name of the shared library.
    """
    for program in programs:
        _check_needs_no_host(program)
    programs = sorted(programs, key=_rank, reverse=True)
    _check_alike(programs)
    name = kit_name(options.name)
    image = weights_image(programs)
    bits = [required_bits(program.target) for program in programs]
    source = descriptor_text(name, programs, bits, image, embedded=options.embedded)
    with tempfile.TemporaryDirectory() as place:
        build = Toolchain.of(programs[0].target, Path(place), freestanding=options.freestanding)
        if options.embedded:
            (build.folder / "image").write_bytes(b"".join(image.content))
        libraries = _build(build, name, programs, source, shared, embedded=options.embedded)
    return programs, image, libraries


def kit_name(text: str) -> str:
    """Return the name of a model as a C identifier."""
    return distinct(text or "model", "m", taken=("tcopt",))


def _rank(program: Program) -> tuple[int, int, str]:
    """Return a key by which better CPUs come later."""
    target = program.target
    return target.vector_bits, target.features.count("+"), target.cpu


def _check_needs_no_host(program: Program) -> None:
    """Check that a program has no strings and no functions that Python computes."""
    texts = [s.name for s in (*program.inputs, *program.outputs) if is_text(s.dtype)]
    functions = sorted({call.function for call in program.host_functions})
    if texts or functions:
        what = f"{texts[0]!r} holds strings" if texts else f"{functions[0]} is a Python function"
        raise UnsupportedError(
            f"a C library cannot have strings or Python functions: {what}",
            hint="save the model as a .tcm file, to be run from Python",
        )


_SHARED = ("inputs", "outputs", "keys", "counts", "checks", "defined", "checked_sizes")
"""Attributes that the programs of a model for several CPUs have in common."""


def _check_alike(programs: Sequence[Program]) -> None:
    """Check that programs have the same arguments, and are for different CPUs."""
    first = programs[0]
    for other in programs[1:]:
        same = all(getattr(first, name) == getattr(other, name) for name in _SHARED)
        if not same or list(first.sizes) != list(other.sizes):
            raise InputError(
                f"the programs for {first.target.cpu} and {other.target.cpu} have different inputs "
                "or outputs",
                hint="compile the same model with the same shapes for each CPU",
            )
        if other.target.machine != first.target.machine:
            raise InputError(
                f"{first.target.cpu} and {other.target.cpu} have different instructions"
            )
    names = [program.target.cpu for program in programs]
    if len(set(names)) < len(names):
        raise InputError(f"several programs are for the same CPU: {', '.join(sorted(names))}")


def _build(
    build: Toolchain,
    name: str,
    programs: Sequence[Program],
    source: str,
    shared: str,
    *,
    embedded: bool,
) -> dict[str, bytes]:
    """Return the static library and, if there is a C library, the shared one by suffix."""
    model: list[str] = []
    for number, program in enumerate(programs):
        objects: list[str] = []
        for part, data in enumerate(program.objects):
            objects.append(f"level{number}_{part}.o")
            (build.folder / objects[-1]).write_bytes(data)
        model.append(f"level{number}.o")
        main = f"level{number}_main"
        build.join(objects, model[-1], main, renamed=(ENTRY_SYMBOL, main))
    (build.folder / "descriptor.c").write_text(source, encoding="utf-8")
    build.compile("descriptor.c", "descriptor.o", _HERE / "c", _INCLUDE)
    model.append("descriptor.o")
    if embedded:
        (build.folder / "image.s").write_text(_IMAGE, encoding="utf-8")
        build.compile("image.s", "image.o")
        model.append("image.o")
    build.join(model, f"tcopt_{name}.o", symbol_of(name))
    # The pool has no vector code: the same object serves all CPUs of an architecture.
    target = CpuTarget(programs[0].target.triple)
    runtime = _runtime(target, freestanding=build.freestanding)
    (build.folder / "tcopt_runtime.o").write_bytes(runtime)
    parts = [f"tcopt_{name}.o", "tcopt_runtime.o"]
    results = {".a": f"lib{name}.a"}
    build.archive(parts, results[".a"])
    if not build.freestanding:
        results[".so"] = shared
        build.link(parts, shared)
    return {suffix: (build.folder / file).read_bytes() for suffix, file in results.items()}


@cache
def _runtime(target: CpuTarget, *, freestanding: bool) -> bytes:
    """Return the object file of the runtime, which all models of a program share."""
    with tempfile.TemporaryDirectory() as place:
        build = Toolchain.of(target, Path(place), freestanding=freestanding)
        objects = [f"{path.stem}.o" for path in _SOURCES]
        for path, result in zip(_SOURCES, objects, strict=True):
            (build.folder / path.name).write_bytes(path.read_bytes())
            build.compile(path.name, result, _HERE / "c", _INCLUDE)
        if not freestanding:
            objects.append("pool.o")
            (build.folder / objects[-1]).write_bytes(pool_object(target, _POOL_SYMBOL))
        build.join(objects, "runtime.o", "tcopt_*")
        return (build.folder / "runtime.o").read_bytes()


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files by their paths in a folder, all or none of them."""
    paths = [folder / name for name in files]
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(path.parent, error) from error
    with open_outputs(paths) as streams:
        for stream, data in zip(streams, files.values(), strict=True):
            stream.write(data)


def export_kit(
    models: Model | Sequence[Model],
    folder: str | Path,
    *,
    name: str | None = None,
    weights: str = "embedded",
    freestanding: bool = False,
) -> None:
    """Write a model as a C library with its own runtime, for programs without Python.

    The folder receives `include`, with `tcopt.h` and a header of the model, and `lib`, with a
    static and a shared library, a CMake package and a pkg-config file. See docs/deploy.md.

    Args:
        models: a model, or one model compiled for several CPUs of one architecture; the library
            chooses the code when it is loaded.
        name: name of the library; defaults to the name of the model.
        weights: `embedded` in the libraries, or in a `file` of their own.
        freestanding: compile the runtime without a C library, for systems that have neither files
            nor threads.
    Raises:
        InputError: the folder is not writable, or the models do not have the same inputs and
            outputs.
        UnsupportedError: a model is not for a CPU, is compiled when it runs, or needs Python.
        BackendError: there is no C compiler, or it fails.
    """
    if weights not in ("embedded", "file"):
        raise InputError(f"weights are 'embedded' or in a 'file', not {weights!r}")
    given = list(models) if isinstance(models, Sequence) else [models]
    programs = [_program_of(model) for model in given]
    if not programs:
        raise InputError("no model given")
    options = KitOptions(name or given[0].name, weights == "embedded", freestanding)
    write_kit(as_path(folder), programs, options)
