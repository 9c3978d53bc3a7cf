"""Contents of recently read files by digest, for later use.

A model with open shapes is recompiled for each new shape, by when files that it was loaded with may
have been edited or removed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from tcopt.support.errors import InputError
from tcopt.support.files.access import cannot_read, open_file

_MOST = 16
"""Maximum number of contents kept, by most recent use."""

_DIGEST_BYTES = 16
_contents: OrderedDict[str, bytes] = OrderedDict()
_lock = Lock()


def digest_of_content(path: str | Path) -> str:
    """Read a file and remember its content; return the digest.

    Raises:
        InputError: the file cannot be read.
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
    """Return the content of a file, or the content that it had when its digest was computed.

    Raises:
        InputError: the file cannot be read, or has changed.
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
