"""The child's side of `child_process`: a process that answers messages one after the other.

The module that a child runs defines `start`, which gets the `Server` and the arguments of the
`ChildProcess`, prepares the process, and returns the function that answers a message. Errors of
this function are replies, too. The process exits when its input is closed, even while it runs
native code, so it never outlives its parent.
"""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcopt.support.errors import TcoptError
from tcopt.support.processes.messages import Part, listen, pack, send, unpack

Facts = dict[str, Any]
Reply = Mapping[str, Any] | tuple[Mapping[str, Any], Sequence[Part]]
"""JSON facts, and binary parts if there are any."""
Answer = Callable[[Facts, list[memoryview]], Reply]

OUT_OF_MEMORY = "out-of-memory"
INTERNAL = "internal"


class Server:
    """Receives messages from the parent process, and replies.

    Attributes:
        after_reply: called after each reply, for work that no request needs to wait for.
    """

    def __init__(self) -> None:
        self.after_reply: Callable[[], object] | None = None
        # The parent closes the pipe to end the process; interrupts are meant for the parent only.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._replies = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # Printed text must not be mixed with the replies.
        self._requests = listen(os.fdopen(os.dup(0), "rb"))

    def reply(self, facts: Mapping[str, Any], parts: Sequence[Part] = ()) -> None:
        """Send a message; for the answers of `serve` this is done already."""
        send(self._replies, pack(facts, parts))

    def serve(self, answer: Answer) -> None:
        """Answer messages until the process is ended."""
        while True:
            facts, parts = unpack(self._requests.get())
            reply: Reply
            try:
                if "plugins" in facts:
                    from tcopt.support.registries.plugins import take_plugins

                    take_plugins(facts.pop("plugins"))
                reply = answer(facts, parts)
            except MemoryError as error:
                reply = {"error": OUT_OF_MEMORY, "message": f"out of memory: {error}"}
            except TcoptError as error:
                reply = {"error": error.code, "message": error.message}
            except Exception as error:
                # Third-party code may raise any exception; the parent goes on.
                reply = {"error": INTERNAL, "message": f"{type(error).__name__}: {error}"}
            if isinstance(reply, tuple):
                self.reply(*reply)
            else:
                self.reply(reply)
            if self.after_reply is not None:
                self.after_reply()


def run(module: str, memory: int, arguments: Sequence[Any]) -> None:
    """Run a child process.

    Args:
        module: name of the module with the function `start`.
        memory: limit of its memory in bytes; 0 for none.
    """
    server = Server()
    if memory:
        _limit_memory(memory)
    server.serve(importlib.import_module(module).start(server, *arguments))


def _limit_memory(size: int) -> None:
    """Limit the memory of this process, so that larger allocations fail, if the system can."""
    try:
        import resource
    except ImportError:  # This system has no resource limits.
        return
    # Limit data, not address space, as devices and compilers reserve more address space than they
    # use.
    limit = getattr(resource, "RLIMIT_DATA", None)
    if limit is not None:
        _, most = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            size = min(size, most)
        resource.setrlimit(limit, (size, most))
