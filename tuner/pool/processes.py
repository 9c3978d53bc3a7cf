"""Dask's scheduler and worker without their HTTP servers."""

from __future__ import annotations

from typing import Any

from distributed import Scheduler, Worker


class _WithoutHTTP:
    """Mixin that starts no HTTP server: it has no authentication, and `dashboard=False` does not
    disable it.
    """

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start no server, overriding Dask's method."""


class PoolScheduler(_WithoutHTTP, Scheduler):
    """Scheduler of a pool."""


class PoolWorker(_WithoutHTTP, Worker):
    """Worker of a pool."""
