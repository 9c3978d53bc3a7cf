"""Extensions and modifications of the compiler made by the running program.

They affect the generated code, but are not part of cache keys and are unknown to worker processes.
If there are any, neither the cache nor workers are used.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcopt.compiler.fingerprint import is_current
from tcopt.support.registries.integrity import altered
from tcopt.support.registries.registration import foreign_entries


def extensions() -> Iterator[str]:
    """Describe everything registered in this process that is not part of the package, and every
    object that was replaced after its module was imported.

    This is computed anew at each call, which takes about a millisecond with the whole compiler
    loaded. Only imported modules need to be checked.
    """
    yield from foreign_entries()
    yield from altered()


def obstacles(*, on_disk: bool = False) -> Iterator[str]:
    """Yield reasons why cache keys do not cover this process's compiler; empty if they do.

    Args:
        on_disk: whether the package's files must also be unchanged, because other processes import
            them.
    """
    yield from extensions()
    if not is_current(on_disk=on_disk):
        yield "files of the package changed after this process imported some of them"


def is_plain(*, on_disk: bool = False) -> bool:
    """Whether cache keys fully determine the code that this process generates."""
    return next(obstacles(on_disk=on_disk), None) is None


def is_extended() -> bool:
    """Whether the running program has extended or modified the compiler."""
    return next(extensions(), None) is not None
