"""Processes of a pool: one scheduler, and a worker for each device and each builder.

A process listens on one address only, on the network of the scheduler's address, and without an
HTTP server.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from tcopt.support.errors import BackendError, InputError
from tcopt.support.files.private_files import private_folder
from tcopt.tuner.pool.security import (
    Certificates,
    check_address,
    dask_distributed,
    is_here,
    own_address,
)

BUILD = "build"
"""The label of workers that compile."""

LOOPBACK = "127.0.0.1"

_PATIENCE_S = 60
"""Seconds that a worker waits for its scheduler."""

CONFIGURATION: Mapping[str, object] = {
    # A batch whose worker died is not retried by Dask; the client decides.
    "distributed.scheduler.allowed-failures": 0,
    # An unknown label is reported after a minute, instead of waiting forever.
    "distributed.scheduler.no-workers-timeout": "60s",
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": "60s",
    # The profiler would sample the worker's threads a hundred times a second.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.limit": "1h",
}
"""Differences from Dask's default settings, in all processes of a pool."""


def configure(**more: object) -> None:
    """Set Dask's configuration in this process, with settings in addition to `CONFIGURATION`."""
    dask_distributed()
    import dask

    set_: Any = dask.config.set  # pyright: ignore
    set_({**CONFIGURATION, **more})


def _configure_server() -> None:
    """Configure a process that others connect to, and that imports from nowhere but its own path.

    Dask imports from its folder for temporary files, by default one in /tmp that every user may
    make. A process that a nanny starts would import from the current folder.
    """
    try:
        folder = private_folder("pool")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"the folder of pools cannot be used: {reason}") from error
    if folder is None:
        raise InputError("the user has no home folder", hint="set XDG_STATE_HOME")
    os.environ["PYTHONSAFEPATH"] = "1"
    configure(**{"temporary-directory": str(folder)})


def serve_scheduler(
    host: str = LOOPBACK,
    port: int = 8786,
    certificates: Certificates | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Run a scheduler until the process is interrupted.

    Args:
        host: address that it listens on.
        certificates: of the pool; the user's key file by default.
        ready: called with the address.
    Raises:
        InputError: certificates or key file cannot be used.
        BackendError: it cannot listen there.
    """
    dask_distributed()
    from tcopt.tuner.pool.processes import PoolScheduler

    security = (certificates or Certificates()).or_own(make=True).security("scheduler")
    _configure_server()

    async def run() -> None:
        scheduler: Any = PoolScheduler(
            host=host, port=port, protocol="tls", security=security, dashboard=False
        )
        try:
            await scheduler
        except OSError as error:
            raise BackendError(f"cannot listen at {host}:{port}: {error}") from error
        if ready is not None:
            ready(str(scheduler.address))
        await scheduler.finished()

    asyncio.run(run())


def serve_worker(
    address: str,
    label: str,
    certificates: Certificates | None = None,
    *,
    threads: int | None = None,
    restart: bool = True,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Run a worker until its scheduler ends or the process is interrupted.

    Args:
        address: of the scheduler.
        label: `build` for one that compiles, otherwise the device, such as `cpu:znver5`.
        certificates: of the pool; the user's key file by default.
        threads: number of threads of kernels, by default as many as at run time.
        restart: start the worker again in a new process when it dies.
        ready: called with the worker's address.
    Raises:
        InputError: the address is malformed, or certificates or key file cannot be used.
        BackendError: no scheduler answers there.
    """
    check_label(label)
    place, host = check_address(address)
    package = dask_distributed()
    from tcopt.tuner.pool.processes import PoolWorker

    security = (certificates or Certificates()).or_own(make=is_here(host)).security("worker")
    own = own_address(host)
    _configure_server()

    async def run() -> None:
        kind: Any = package.Nanny if restart else PoolWorker
        # Kernels take their number of threads from the environment.
        more = {"env": _environment(threads), "worker_class": PoolWorker} if restart else {}
        worker: Any = kind(
            place,
            host=own,
            nthreads=1,
            resources={label: 1},
            memory_limit=0,
            security=security,
            name=f"{label} {_number()}",
            dashboard=False,
            death_timeout=_PATIENCE_S,
            **more,
        )
        try:
            # With a wrong key this fails at once; a worker would retry until its timeout.
            comm = await package.connect(
                place, timeout=_PATIENCE_S, **security.get_connection_args("worker")
            )
            await comm.close()
            await worker
        except (OSError, TimeoutError, RuntimeError) as error:
            raise BackendError(
                f"no scheduler with this key answers at {place} within {_PATIENCE_S} s: {error}",
                hint="start one: tcopt-pool scheduler; all machines need the same key file",
            ) from error
        if ready is not None:
            ready(str(getattr(worker, "worker_address", None) or worker.address))
        await worker.finished()

    if not restart:
        os.environ.update(_environment(threads))
    asyncio.run(run())


def check_label(label: str) -> None:
    """Check the label of a worker.

    Raises:
        InputError: it is empty or has characters other than letters, digits and `:._-`.
    """
    if not label or not all(c.isalnum() or c in ":._-" for c in label):
        raise InputError(
            f"'{label}' is not a label of a worker",
            hint="use a device, such as cpu:znver5, or build",
        )


def _environment(threads: int | None) -> dict[str, str]:
    return {} if threads is None else {"TCOPT_NUM_THREADS": str(threads)}


def _number() -> str:
    return secrets.token_hex(4)
