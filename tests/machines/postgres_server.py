"""A PostgreSQL server of the tests' own, in a folder that goes with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from glob import glob
from pathlib import Path

USER = "postgres"


def missing() -> str:
    """Why there can be no server; empty if there can."""
    if not _program("initdb"):
        return "PostgreSQL's server is not installed"
    if os.geteuid() == 0 and not shutil.which("runuser"):
        return "root cannot start PostgreSQL's server, and there is no runuser"
    return ""


def _program(name: str) -> str | None:
    """Debian keeps them out of PATH."""
    found = sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return found[-1] if found else shutil.which(name)


@contextmanager
def postgres_server() -> Generator[str]:
    """Start a server; the URL of a database without tables."""
    # The names of sockets are short.
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    prefix: list[str] = []
    if os.geteuid() == 0:
        prefix = ["runuser", "-u", USER, "--"]
        shutil.chown(folder, USER)
    data = str(folder / "data")

    def run(name: str, *arguments: str) -> None:
        command = [*prefix, _program(name) or name, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60, cwd="/")

    try:
        run("initdb", "-A", "trust", "--no-sync", "-U", USER, "-D", data)
        options = f"-k {folder} -c listen_addresses='' -F"
        run("pg_ctl", "-w", "-D", data, "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://{USER}@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "-D", data, "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
