"""Messages between processes, each preceded by its length."""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import IO, Any

_LENGTH = struct.Struct("<Q")

Part = bytes | bytearray | memoryview


def send(stream: IO[bytes], message: bytes) -> None:
    """Write a message."""
    stream.write(_LENGTH.pack(len(message)) + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Read a message; raise EOFError at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return body


def listen(stream: IO[bytes]) -> SimpleQueue[bytes]:
    """Read messages in a thread; return their queue. The process exits when the stream ends.

    This ensures that a child does not outlive its parent, even while it runs native code.
    """
    messages: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        try:
            while True:
                messages.put(receive(stream))
        except (EOFError, OSError):
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return messages


def pack(facts: Mapping[str, Any], parts: Sequence[Part] = ()) -> bytes:
    """Encode JSON facts and binary parts as one message."""
    sizes = [memoryview(part).nbytes for part in parts]
    head = json.dumps({"facts": dict(facts), "sizes": sizes}).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *parts])


def unpack(message: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """Decode the facts and parts of a message; raise ValueError if it is malformed."""
    (length,) = _LENGTH.unpack_from(message)
    start = _LENGTH.size + length
    head = json.loads(message[_LENGTH.size : start])
    view, parts = memoryview(message), list[memoryview]()
    for size in head["sizes"]:
        parts.append(view[start : start + size])
        start += size
    if start != len(message):
        raise ValueError("the length of a message does not match its header")
    return head["facts"], parts
