"""`tcopt-pool`: the processes of a pool of devices that measure for the tuner."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from tcopt.tools.command_line import cli

PROG = "tcopt-pool"


class _CommandParser(cli.ArgumentParser):
    """A parser of one command, with the usage errors of the whole tool."""

    def __init__(self, prog: str = PROG, **_: object):
        super().__init__(prog, None)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    args = _argument_parser().parse_args(argv)
    return cli.run_tool(PROG, partial(_run, args), show_traceback=args.traceback, plugins=args.load)


def _argument_parser() -> argparse.ArgumentParser:
    parser = cli.ArgumentParser(PROG, __doc__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_CommandParser)
    scheduler = commands.add_parser("scheduler", help="distributes work to workers; one per pool")
    scheduler.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    scheduler.add_argument("--port", type=int, default=8786, help="0 for any (8786)")
    worker = commands.add_parser("worker", help="compiles, or measures on one device")
    worker.add_argument("address", help="address of the scheduler: HOST:PORT")
    worker.add_argument("--label", required=True, help="the device, such as cpu:znver5, or build")
    worker.add_argument("--threads", type=int, help="threads of kernels, by default one per core")
    worker.add_argument(
        "--no-restart",
        action="store_true",
        help="exit when the worker dies, instead of restarting it",
    )
    for command in (scheduler, worker):
        cli.add_certificates(command)
        cli.add_load(command)
        cli.add_common_arguments(command)
    return parser


def _run(args: argparse.Namespace) -> int:
    from tcopt.tuner.pool.security import Certificates
    from tcopt.tuner.pool.serve import serve_scheduler, serve_worker

    certificates = Certificates(args.tls_ca, args.tls_cert, args.tls_key)
    if args.command == "scheduler":
        serve_scheduler(args.host, args.port, certificates, _say)
    else:
        serve_worker(
            args.address,
            args.label,
            certificates,
            threads=args.threads,
            restart=not args.no_restart,
            ready=_say,
        )
    return 0


def _say(address: str) -> None:
    print(f"ready at {address}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
