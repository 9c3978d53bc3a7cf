"""Common behaviour of the command-line tools: one clear message on stderr and exit code 1.

A tool's `main` wraps its body in `run_tool`. Any error becomes one message that says what went
wrong and where; `--traceback` also prints the Python stack.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from tcopt.support.accuracy import ACCURACIES, DEFAULT, PRECISE, PRECISIONS
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.extras import missing_package
from tcopt.tools.command_line.terminal import safe_output, shown

if TYPE_CHECKING:
    from xdsl.utils.exceptions import ParseError


class ArgumentParser(argparse.ArgumentParser):
    """An argument parser whose usage errors are one line with exit code 1."""

    def __init__(self, prog: str, description: str | None):
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self.add_argument(
            "--version", action=_PrintVersions, nargs=0, help="print versions and exit"
        )

    def error(self, message: str) -> NoReturn:
        print(shown(f"{self.prog}: usage: {message}; see {self.prog} --help"), file=sys.stderr)
        raise SystemExit(1)


class _PrintVersions(argparse.Action):
    """Print the versions of tcopt and of the libraries that code depends on."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(version_text())
        raise SystemExit(0)


def version_text() -> str:
    """Return the version of tcopt and, on a second line, the versions of its libraries."""
    from tcopt.compiler.versions import versions

    found = versions()
    libraries = ", ".join(f"{name} {found[name]}" for name in ("xdsl", "onnx", "numpy"))
    return (
        f"tcopt {found['tcopt']} (Python {found['Python']})\n"
        f"llvmlite {found['llvmlite']} (LLVM {found['LLVM']}), {libraries}"
    )


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that every tool has."""
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="after an error, also print the Python stack that raised it",
    )


def add_accuracy(parser: argparse.ArgumentParser) -> None:
    """Add the accuracy options of tools that compile a model."""
    parser.add_argument(
        "--accuracy",
        choices=ACCURACIES,
        default=DEFAULT,
        help="which algorithms that are faster but less accurate to use (default)",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default=PRECISE,
        help="type to which layers round data and weights (f32: no rounding)",
    )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the options that limit a model's resources and file accesses."""
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="a limit of the model: tensor-bytes, nodes, depth ... (docs/checking.md)",
    )
    parser.add_argument(
        "--follow-links",
        action="store_true",
        help="links of external data may point outside of the model's folder, as in model hubs",
    )


def add_shapes(parser: argparse.ArgumentParser) -> None:
    """Add the options that fix open dimensions."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME:1x3x224x224",
        help="shape of an input that the model leaves open",
    )
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="extent of a dimension that the model leaves open, by its name",
    )


def add_deciding_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the option of tools that only compile: values of inputs that determine shapes."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=@FILE.npy",
        help="value of an input that determines shapes",
    )


def add_certificates(parser: argparse.ArgumentParser) -> None:
    """Add the options of tools that are part of a pool: TLS files instead of the user's key."""
    for name, text in (
        ("--tls-ca", "certificate of the pool's authority, instead of the user's key file"),
        ("--tls-cert", "certificate of this process"),
        ("--tls-key", "private key of the certificate"),
    ):
        parser.add_argument(name, default="", metavar="FILE", help=text)


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add the option that disables the cache."""
    parser.add_argument(
        "--no-cache", action="store_true", help="compile every kernel, and do not cache any"
    )


def add_tuned(parser: argparse.ArgumentParser) -> None:
    """Add the lock file options of tools that compile a model."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--tuned",
        metavar="FILE",
        help="lock file of schedules, by default MODEL.tuned.mlir next to the model, if it exists",
    )
    group.add_argument("--no-tuned", action="store_true", help="ignore lock files")
    parser.add_argument(
        "--locked",
        action="store_true",
        help="every kernel must have an entry in the lock file, and every entry must apply",
    )


def wanted_tuning(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `add_tuned` as arguments of `tcopt.compile`."""
    return {"tuned": False if args.no_tuned else args.tuned or True, "locked": args.locked}


def seed_number(text: str) -> int:
    """Parse the seed of random numbers."""
    number = int(text)
    if not 0 <= number < 2**64:
        raise argparse.ArgumentTypeError(f"a seed is a number of at least 0, not {text[:40]}")
    return number


def positive_seconds(text: str) -> float:
    """Parse a time limit."""
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"a limit is a positive number, not {text[:40]}")
    return seconds


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options of tools that run a model: shapes and values of its inputs."""
    add_shapes(parser)
    add = parser.add_argument
    add(
        "--input",
        action="append",
        default=[],
        metavar="NAME=@FILE.npy",
        help="value of an input, or @FILE.npz for several; others are random",
    )
    add("--seed", type=seed_number, default=0, help="seed of the random inputs (0)")


def add_load(parser: argparse.ArgumentParser) -> None:
    """Add the option that loads plugins, to be passed to `run_tool`."""
    parser.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="PLUGIN",
        help="plugin: FILE.py, a module, or an entry point of an installed package",
    )


def add_insert(parser: argparse.ArgumentParser) -> None:
    """Add the option of tools that compile a model to insert passes into the pipeline."""
    parser.add_argument(
        "--insert-passes",
        action="append",
        default=[],
        metavar="PLACE=PASSES",
        help="passes at a point of the pipeline: after:fuse-ops=my-pass, before:kernel=...",
    )


def inserted_passes(args: argparse.Namespace) -> dict[str, str]:
    """Return the options of `--insert-passes` as `tcopt.compile(passes=...)` takes them."""
    found: dict[str, str] = {}
    for text in args.insert_passes:
        place, equals, passes = text.partition("=")
        if not equals:
            raise InputError(
                f"--insert-passes {text} has no '='", hint="write after:fuse-ops=my-pass"
            )
        found[place] = f"{found[place]},{passes}" if place in found else passes
    return found


def run_tool(
    prog: str,
    body: Callable[[], int],
    *,
    show_traceback: bool = False,
    plugins: Sequence[str] = (),
) -> int:
    """Run `body` with plugins; turn any exception into a message and exit code 1."""
    # Garbage collections are slow, as IR has reference cycles, and free little in a single run.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with safe_output():
            return _run(prog, partial(_with_plugins, plugins, body), show_traceback)
    finally:
        if collecting:
            gc.enable()


def _with_plugins(plugins: Sequence[str], body: Callable[[], int]) -> int:
    if not plugins:
        return body()
    from tcopt.support.registries.plugins import plugins_loaded

    with plugins_loaded(plugins):
        return body()


def _run(prog: str, body: Callable[[], int], show_traceback: bool) -> int:
    try:
        code = body()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader closed the pipe; exit without another error at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        report(prog, error, show_traceback=show_traceback)
        return 1


def report(prog: str, error: Exception, *, show_traceback: bool = False) -> None:
    """Print one message about `error` to stderr."""
    if show_traceback:
        traceback.print_exception(error, file=sys.stderr)
    print(f"{prog}: {describe(error)}", file=sys.stderr)


def describe(error: Exception) -> str:
    """Return the message for an exception."""
    from xdsl.utils.exceptions import DiagnosticException, ParseError

    if (missing := missing_package(error)) is not None:
        error = missing
    match error:
        case TcoptError():
            return str(error)
        case ParseError():
            return describe_parse_error(error)
        case DiagnosticException():
            return f"invalid-ir: {_summary(error)}"
        case OSError() if error.filename is not None:
            return f"bad-input: cannot open '{error.filename}': {error.strerror}"
        case MemoryError():
            return f"out-of-memory: {error or 'there is not enough memory'}"
        case RecursionError():
            return "the input is nested too deeply"
        case _:
            notes = " ".join(getattr(error, "__notes__", ()))
            context = f" {notes}" if notes else ""
            return (
                f"internal error{context}: {type(error).__name__}: {_summary(error)}"
                "; --traceback shows where"
            )


def describe_parse_error(error: ParseError) -> str:
    """Format a syntax error as `file:line:col: message`, the line, and a caret."""
    span = error.span
    content = span.input.content
    text = content if isinstance(content, str) else content.decode(errors="replace")
    start = min(span.start, max(len(text) - 1, 0))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    number = text.count("\n", 0, line_start) + 1
    column = start - line_start
    width = max(1, min(span.end, line_start + len(line)) - start)
    first, *rest = error.msg.strip().splitlines() or ["syntax error"]
    message = " ".join([first.strip(), *(part.strip() for part in rest)])
    if not text[span.start :].strip():
        message = f"unexpected end of the text: {message}"
    return (
        f"syntax: {span.input.name}:{number}:{column + 1}: {message}\n"
        f"  {line}\n  {' ' * column}{'^' * width}"
    )


def _summary(error: Exception) -> str:
    """Return the first paragraph of a message, on one line."""
    lines: list[str] = []
    for line in str(error).strip().splitlines():
        if not line.strip() and lines:
            break
        lines.append(line.strip())
    return " ".join(lines)[:400] or "no message"
