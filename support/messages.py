"""Messages between processes: a length, then that many bytes."""

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
    """Write one message."""
    stream.write(_LENGTH.pack(len(message)) + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Read one message; raises EOFError where the stream ends."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return body


def listen(stream: IO[bytes]) -> SimpleQueue[bytes]:
    """Return a queue of the messages that a thread reads; the process ends when the stream does.

    So a child never outlives its parent, even in the middle of native code that does not end.
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
    """One message of facts, as JSON has them, and of parts that are bytes."""
    sizes = [memoryview(part).nbytes for part in parts]
    head = json.dumps({"facts": dict(facts), "sizes": sizes}).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *parts])


def unpack(message: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """The facts and parts of a message; raises ValueError if it is none."""
    (length,) = _LENGTH.unpack_from(message)
    start = _LENGTH.size + length
    head = json.loads(message[_LENGTH.size : start])
    view, parts = memoryview(message), list[memoryview]()
    for size in head["sizes"]:
        parts.append(view[start : start + size])
        start += size
    if start != len(message):
        raise ValueError("a message of another length than it says")
    return head["facts"], parts
