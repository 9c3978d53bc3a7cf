"""`tcopt-cache`: show or clear the cached programs and kernels on disk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from tcopt.compiler.disk_store import DiskStore
from tcopt.compiler.kernel_cache import KernelCache, user_programs
from tcopt.tools.command_line import cli

PROG = "tcopt-cache"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = cli.ArgumentParser(PROG, __doc__)
    parser.add_argument("action", nargs="?", default="info", choices=["info", "clear"])
    cli.add_common_arguments(parser)
    args = parser.parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args.action), show_traceback=args.traceback)


def _run(action: str) -> int:
    kernels, programs = KernelCache.of_user(), user_programs()
    if kernels is None:
        print("the cache is turned off by TCOPT_CACHE")
        return 0
    stores: dict[str, DiskStore] = {"kernels": kernels}
    if programs is not None:
        stores["programs"] = programs
    print(kernels.folder)
    if kernels.obstacle is not None:
        print(f"  not used: {kernels.obstacle}")
        return 1
    for what, store in stores.items():
        if action == "clear":
            print(f"  {what}: {store.clear()} entries removed")
        else:
            use = store.use()
            size, limit = use.bytes / 1e6, use.limit / 1e6
            print(f"  {what}: {use.entries} entries, {size:.1f} MB of at most {limit:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
