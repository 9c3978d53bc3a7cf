"""A compiled model as a shared library that a C program can call, without Python.

It may be for another machine than this one, given a cross compiler to link with.

`model.so` has one function, `int32_t tcopt_main(void **arguments)`. Its arguments are, in
order, the inputs, the outputs, the checks, the weights (the bytes of `model.so.weights`, at an
address that is a multiple of 64) and a workspace. `model.so.json` says their names, shapes and
sizes. The three files belong together: they are saved as one, and the description has a digest of
the other two, which `check_library` compares.

A check is an output that the model does not have: bytes that are not zero where the data was not
what an operator may be given, such as an index outside of a tensor. Its name says what is wrong;
results then have the nearest element in its place.

Parallel loops run on as many threads as there are usable cores, or as the environment variable
`TCOPT_NUM_THREADS` says, or as the program has said by `void tcopt_set_threads(int32_t)`.
`void tcopt_cancel(int32_t)` ends a run: the function returns what that was given, until it is 0
again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tcopt.backends.llvm.machine.linker import linked_library
from tcopt.backends.llvm.pool.text import pool_objects
from tcopt.runtime.loading import description
from tcopt.runtime.program import Program
from tcopt.runtime.specs import TensorSpec
from tcopt.support.alignment import ALIGNMENT
from tcopt.support.digests import digest_of, digest_of_file
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.files import as_path, cannot_read, open_file, open_outputs
from tcopt.support.strings import is_text

_MOST_JSON = 1 << 26


def write_library(path: Path, program: Program) -> None:
    """Write `path`, and the weights and the description beside it: all three, or none.

    Raises:
        BackendError: there is no C compiler, or linking failed.
        InputError: the folder does not exist or is not writable.
    """
    check_needs_no_host(program)
    objects = [*program.objects, *pool_objects(program.target)]
    code = linked_library(objects, program.target, path.name)
    parts = {"library": code, "weights": program.weights.data}
    digests = {name: digest_of([data]).hex() for name, data in parts.items()}
    text = json.dumps({**_describe(program), "digests": digests}, indent=1)
    with open_outputs([*_beside(path), path]) as (weights, facts, library):
        weights.write(program.weights.data)
        facts.write(text.encode())
        library.write(code)


def check_needs_no_host(program: Program) -> None:
    """Check that a program needs nothing of Python's when it runs.

    Raises:
        UnsupportedError: it takes or gives strings, or has functions that Python computes.
    """
    texts = [s.name for s in (*program.inputs, *program.outputs) if is_text(s.dtype)]
    functions = sorted({call.function for call in program.host_functions})
    if texts or functions:
        what = f"{texts[0]!r} holds strings" if texts else f"{functions[0]} is Python's"
        raise UnsupportedError(
            f"a library for C has no strings and none of Python's functions, here {what}",
            hint="save the model as a .tcm file, to be run from Python",
        )


def check_library(path: str | Path) -> None:
    """Check that a library and its weights are the ones that its description was written with.

    Raises:
        InputError: they are not, or one cannot be read.
    """
    library = as_path(path)
    weights, facts = _beside(library)
    digests = _digests(facts)
    for name, file in (("library", library), ("weights", weights)):
        try:
            with open_file(file) as stream:
                size = stream.seek(0, 2)
                found = digest_of_file(stream.fileno(), size).hex()
        except OSError as error:
            raise cannot_read(file, error) from error
        except EOFError:
            found = ""
        if digests.get(name) != found:
            raise InputError(
                f"{file} is damaged, or was not saved with {facts}", hint="save the library again"
            )


def _beside(path: Path) -> tuple[Path, Path]:
    """The files of the weights and of the description."""
    return path.with_name(path.name + ".weights"), path.with_name(path.name + ".json")


def _digests(path: Path) -> dict[str, Any]:
    try:
        with open_file(path) as stream:
            facts = json.loads(stream.read(_MOST_JSON) or b"")
    except OSError as error:
        raise cannot_read(path, error) from error
    except (ValueError, RecursionError):
        facts = None
    found = facts.get("digests") if isinstance(facts, dict) else None
    if not isinstance(found, dict):
        raise InputError(f"{path} describes no library that was saved with digests")
    return found


def _describe(program: Program) -> dict[str, Any]:
    arguments = [
        *(_argument("input", spec) for spec in (*program.inputs, *program.keys)),
        *(_argument("output", spec) for spec in program.outputs),
        *(_argument("check", spec) for spec in program.checks),
        {"role": "weights", "bytes": program.weights.nbytes},
        {"role": "workspace", "bytes": program.workspace_bytes},
    ]
    return {
        "host": description(program.target),
        "entry": "tcopt_main",
        "alignment": ALIGNMENT,
        "arguments": arguments,
    }


def _argument(role: str, spec: TensorSpec) -> dict[str, Any]:
    return {
        "role": role,
        "name": spec.name,
        "shape": list(spec.shape),
        "dtype": spec.dtype.name,
    }
