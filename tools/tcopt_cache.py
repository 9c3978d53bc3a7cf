"""`tcopt-cache`: where compiled kernels are kept and how much room they take; or forget them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from tcopt.compiler.kernel_cache import KernelCache
from tcopt.tools import cli

PROG = "tcopt-cache"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = cli.ArgumentParser(PROG, __doc__)
    parser.add_argument("action", nargs="?", default="info", choices=["info", "clear"])
    cli.add_common_arguments(parser)
    args = parser.parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args.action), show_traceback=args.traceback)


def _run(action: str) -> int:
    cache = KernelCache.of_user()
    if cache is None:
        print("the cache is turned off by TCOPT_CACHE")
    elif action == "clear":
        print(f"{cache.folder}: {cache.clear()} entries removed")
    else:
        use = cache.use()
        print(
            f"{use.folder}: {use.entries} entries, {use.bytes / 1e6:.1f} MB "
            f"of at most {use.limit / 1e6:.0f} MB"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
