"""Arrays on a command line: inputs read from files as `name=@x.npy`, and outputs by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError, ResourceError
from tcopt.support.files.access import open_file

if TYPE_CHECKING:
    from tcopt.runtime.signature import Feed

Array = NDArray[Any]


def output_arrays(names: Iterable[str], results: Iterable[Feed]) -> dict[str, Array]:
    """Return the arrays of all outputs by name; those of a sequence `y` are `y[0]`, `y[1]` and so
    on.
    """
    from tcopt.runtime.signature import flat_arrays

    pairs = zip(names, results, strict=True)
    return dict(pair for name, value in pairs for pair in flat_arrays(name, value))


def read_arrays(texts: Sequence[str]) -> dict[str, Array]:
    """Parse `name=@file.npy` arguments; a `.npz` file without a name provides all its arrays.

    Raises:
        InputError: an argument does not have this form or its file cannot be read.
    """
    found: dict[str, Array] = {}
    for text in texts:
        name, separator, path = text.partition("=@")
        if separator and name:
            loaded = _load(path)
            if not isinstance(loaded, np.ndarray):
                raise InputError(f"'{path}' holds several arrays", hint=f"write '@{path}' alone")
            found[name] = loaded
        elif text.startswith("@"):
            loaded = _load(text[1:])
            if isinstance(loaded, np.ndarray):
                raise InputError(f"'{text}' needs a name", hint=f"write 'name={text}'")
            found.update(loaded)
        else:
            raise InputError(f"'{text}' is not 'name=@file.npy'")
    return found


def _load(path: str) -> Array | dict[str, Array]:
    if not Path(path).is_file():
        raise InputError(f"there is no file '{path}'")
    try:
        with open_file(path) as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else {k: loaded[k] for k in loaded}
    except MemoryError as error:
        raise ResourceError(f"the arrays of '{path}' need more memory than there is") from error
    # Malformed headers and archives make numpy raise errors of many classes.
    except Exception as error:
        raise InputError(f"'{path}' is not a numpy file: {error}") from None
