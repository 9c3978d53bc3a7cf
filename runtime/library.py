"""A compiled model as a shared library that a C program can call, without Python.

It may be for another machine than this one, given a cross compiler to link with.

`model.so` has one function, `int32_t tcopt_main(void **arguments)`. Its arguments are, in
order, the inputs, the outputs, the weights (the bytes of `model.so.weights`, at an address
that is a multiple of 64) and a workspace. `model.so.json` says their names, shapes and sizes.

Parallel loops run on as many threads as there are usable cores, or as the environment variable
`TCOPT_NUM_THREADS` says, or as the program has said by `void tcopt_set_threads(int32_t)`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tcopt.backends.llvm.linker import link_library
from tcopt.backends.llvm.pool.text import pool_objects
from tcopt.runtime.loading import description
from tcopt.runtime.program import Program
from tcopt.runtime.specs import TensorSpec
from tcopt.support.alignment import ALIGNMENT
from tcopt.support.errors import InputError


def write_library(path: Path, program: Program) -> None:
    """Write `path`, and the weights and the description beside it.

    Raises:
        BackendError: there is no C compiler, or linking failed.
        InputError: the folder does not exist or is not writable.
    """
    try:
        path.with_name(path.name + ".weights").write_bytes(program.weights.data)
        text = json.dumps(_describe(program), indent=1)
        path.with_name(path.name + ".json").write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write beside {path}: {error.strerror or error}") from error
    objects = [*program.objects, *pool_objects(program.target)]
    link_library(objects, path, program.target)


def _describe(program: Program) -> dict[str, Any]:
    arguments = [
        *(_argument("input", spec) for spec in program.inputs),
        *(_argument("output", spec) for spec in program.outputs),
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
