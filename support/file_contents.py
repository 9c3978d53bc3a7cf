"""What files held when they were looked at, by digest, for who needs the same later.

A model of open shapes is compiled again for each new shape, and a file that it was loaded with may
have been edited meanwhile, or be gone.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from tcopt.support.errors import InputError
from tcopt.support.files import cannot_read, open_file

_MOST = 16
"""Contents that are kept, the last ones used."""

_DIGEST_BYTES = 16
_contents: OrderedDict[str, bytes] = OrderedDict()
_lock = Lock()


def digest_of_content(path: str | Path) -> str:
    """A digest of what a file holds, which is kept.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with open_file(path) as stream:
            data = stream.read()
    except OSError as error:
        raise cannot_read(path, error) from error
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    with _lock:
        _contents[digest] = data
        _contents.move_to_end(digest)
        while len(_contents) > _MOST:
            _contents.popitem(last=False)
    return digest


def content(path: str | Path, digest: str = "") -> bytes:
    """What a file holds, or held when its digest was taken.

    Raises:
        InputError: it cannot be read, or is another one than it was.
    """
    with _lock:
        if digest in _contents:
            _contents.move_to_end(digest)
            return _contents[digest]
    found = digest_of_content(path)
    if digest and found != digest:
        raise InputError(
            f"'{path}' has changed since the model was loaded", hint="load the model again"
        )
    return _contents[found]
