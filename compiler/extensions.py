"""What a program has added to the compiler, or changed of it.

Code depends on it and neither the key of anything on disk nor another process tells, so with
any of it nothing is looked up, kept, or given to workers.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcopt.compiler.fingerprint import is_current
from tcopt.support.integrity import altered
from tcopt.support.registration import foreign_entries


def extensions() -> Iterator[str]:
    """Descriptions of what is registered in this process that did not come with the package,
    and of what is another object than when its module was imported.

    It is looked at anew each time, which takes about a millisecond with the whole compiler
    loaded. What was not imported has nothing but the package's own.
    """
    yield from foreign_entries()
    yield from altered()


def obstacles(*, on_disk: bool = False) -> Iterator[str]:
    """Why a cache's keys do not tell what code of this process is like; nothing if they do.

    Args:
        on_disk: whether the package's files must be what they were, too, as other processes
            import them.
    """
    yield from extensions()
    if not is_current(on_disk=on_disk):
        yield "files of the package were changed after this process had imported some of them"


def is_plain(*, on_disk: bool = False) -> bool:
    """Whether the cache's keys tell what code of this process is like."""
    return next(obstacles(on_disk=on_disk), None) is None


def is_extended() -> bool:
    """Whether a program has added anything to the compiler, or changed anything of it."""
    return next(extensions(), None) is not None
