"""A compiled model as a shared library that a C program can call, without Python.

With a cross compiler as the linker, the library may be for another machine.

`model.so` has one function, `int32_t tcopt_main(void **arguments)`. Its arguments are, in order,
the inputs, the outputs, the checks, the sizes, the weights (the bytes of `model.so.weights`,
aligned to 64 bytes) and a workspace. `model.so.json` describes their names, shapes and sizes. The
three files belong together: they are written atomically, and the description has a digest of the
other two, which `check_library` compares.

A result whose entry has `in_place_of` overwrites that input; its own argument is not accessed.

A size is an `int64_t`: the value of a name in the shapes of inputs and outputs. Arrays have these
extents, and need no room after them.

A check is an output that the model does not have: bytes that are nonzero if the data was invalid
for an operator, such as an index out of bounds. Its name is the error message. The results then use
the nearest valid element.

Parallel loops use one thread per usable core, or the number in the environment variable
`TCOPT_NUM_THREADS`, or the number set by a call of `void tcopt_set_threads(int32_t)`.
`void tcopt_cancel(int32_t)` stops a run: the function returns the argument of that call, until it
is set to 0 again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tcopt.backends.llvm.machine.linker import linked_library
from tcopt.backends.llvm.pool.text import pool_objects
from tcopt.runtime.description import sizes_facts
from tcopt.runtime.loading import description
from tcopt.runtime.program import Program
from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.sizes import Size
from tcopt.support.data.strings import is_text
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.files.access import as_path, cannot_read, open_file, open_outputs
from tcopt.support.files.digests import digest_of, digest_of_file
from tcopt.support.machines.alignment import ALIGNMENT

_MOST_JSON = 1 << 26


def write_library(path: Path, program: Program) -> None:
    """Write `path`, and next to it the weights and the description, all three atomically.

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
    """Check that a program does not need Python when it runs.

    Raises:
        UnsupportedError: it has string inputs or outputs, or functions that Python computes.
    """
    texts = [s.name for s in (*program.inputs, *program.outputs) if is_text(s.dtype)]
    functions = sorted({call.function for call in program.host_functions})
    if texts or functions:
        what = f"{texts[0]!r} holds strings" if texts else f"{functions[0]} is a Python function"
        raise UnsupportedError(
            f"a C library cannot have strings or Python functions: {what}",
            hint="save the model as a .tcm file, to be run from Python",
        )


def check_library(path: str | Path) -> None:
    """Check that a library and its weights match the digests in its description.

    Raises:
        InputError: they do not, or one cannot be read.
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
    """Return the paths of the weights and of the description."""
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
        raise InputError(f"{path} does not describe a library that was saved with digests")
    return found


def _describe(program: Program) -> dict[str, Any]:
    arguments = [
        *(_argument("input", spec) for spec in (*program.inputs, *program.keys)),
        *(_argument("output", spec) for spec in program.outputs),
        *(_argument("defined size", spec) for spec in program.counts),
        *(_argument("check", spec) for spec in program.checks),
        *({"role": "size", **facts} for facts in sizes_facts(program.sizes)),
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
        "shape": [str(d) if isinstance(d, Size) else d for d in spec.shape],
        "dtype": spec.dtype.name,
        **({"in_place_of": spec.in_place_of} if spec.in_place_of else {}),
    }
