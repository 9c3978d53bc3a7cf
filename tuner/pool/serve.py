"""The processes of a pool: one scheduler, and a worker for each device and each builder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tcopt.support.errors import BackendError, InputError
from tcopt.tuner.pool.security import Certificates, check_address, check_host, dask_distributed

BUILD = "build"
"""The label of workers that compile."""

LOOPBACK = "127.0.0.1"

_PATIENCE_S = 60
"""How long a worker waits for its scheduler."""

CONFIGURATION: Mapping[str, object] = {
    # Who has ended a worker is not tried on the next ones; the client knows what to do.
    "distributed.scheduler.allowed-failures": 0,
    # A device that nobody has is told, and not waited for.
    "distributed.scheduler.no-workers-timeout": "60s",
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": "60s",
    # It would look at the worker's threads a hundred times a second.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.limit": "1h",
}
"""What differs from Dask's own settings, in all processes of a pool."""


def configure() -> None:
    """Set what a pool needs in this process."""
    dask_distributed()
    import dask

    set_: Any = dask.config.set  # pyright: ignore
    set_(dict(CONFIGURATION))


def serve_scheduler(
    host: str = LOOPBACK,
    port: int = 8786,
    certificates: Certificates | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Run a scheduler until the process is interrupted.

    Args:
        host: where it is reached; others than this machine's own need certificates.
        ready: called with the address.
    Raises:
        InputError: it would be open to everybody.
        BackendError: it cannot be reached there.
    """
    given = certificates or Certificates()
    check_host(host, given)
    configure()

    async def run() -> None:
        scheduler: Any = dask_distributed().Scheduler(
            host=host,
            port=port,
            protocol="tls" if given else "tcp",
            security=given.security("scheduler"),
            dashboard=False,
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
        label: `build` for one that compiles, otherwise the device, such as `cpu:znver5`.
        threads: that kernels may use, by default as many as at run time.
        restart: whether a process beside it starts it again when it dies.
    Raises:
        InputError: the address is none, or leads to another machine without certificates.
        BackendError: no scheduler answers there.
    """
    given = certificates or Certificates()
    check_label(label)
    place = check_address(address, given)
    configure()

    async def run() -> None:
        package = dask_distributed()
        kind: Any = package.Nanny if restart else package.Worker
        worker: Any = kind(
            place,
            nthreads=1,
            resources={label: 1},
            memory_limit=0,
            security=given.security("worker"),
            name=f"{label} {_number()}",
            dashboard=False,
            death_timeout=_PATIENCE_S,
            # What it runs takes its number of threads from here.
            **({"env": _environment(threads)} if restart else {}),
        )
        try:
            await worker
        except (OSError, TimeoutError) as error:
            raise BackendError(
                f"no scheduler answers at {place} within {_PATIENCE_S} s: {error}",
                hint="start one: tcopt-pool scheduler",
            ) from error
        if ready is not None:
            ready(str(getattr(worker, "worker_address", None) or worker.address))
        await worker.finished()

    if not restart:
        import os

        os.environ.update(_environment(threads))
    asyncio.run(run())


def check_label(label: str) -> None:
    """Refuse what is not a label.

    Raises:
        InputError: it is empty or has spaces.
    """
    if not label or not all(c.isalnum() or c in ":._-" for c in label):
        raise InputError(
            f"'{label}' is not a label of a worker",
            hint="it is a device, such as cpu:znver5, or build",
        )


def _environment(threads: int | None) -> dict[str, str]:
    return {} if threads is None else {"TCOPT_NUM_THREADS": str(threads)}


def _number() -> str:
    import secrets

    return secrets.token_hex(4)
