"""Instruments of a pipeline: timing, dumps, diffs and checks, with no output on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TextIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tcopt.support.errors import InputError, VerificationError
from tcopt.support.files.access import write_output
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.running import Instrument
from tcopt.support.remarks import collect_remarks
from tcopt.tools.passes.weight_files import save_weights, weights_named

_WEIGHTS = "weights.safetensors"

PrintModule = Callable[[ModuleOp], str]


@contextmanager
def print_remarks() -> Generator[None]:
    """Print to stderr, at the end of the context, the decisions that passes report inside."""
    with collect_remarks() as remarks:
        try:
            yield
        finally:
            for each in remarks:
                print(each, file=sys.stderr)


@dataclass
class PassTimer(Instrument):
    """Print a table of the time of each pass and the ops it left, to stderr."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    rows: list[tuple[str, float, int]] = field(default_factory=list)
    _started: float = 0.0

    def before(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        self._started = time.perf_counter()

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        seconds = time.perf_counter() - self._started
        self.rows.append((module_pass.name, seconds, sum(1 for _ in module.walk())))

    def finish(self, module: ModuleOp) -> None:
        total = sum(seconds for _, seconds, _ in self.rows)
        width = max((len(name) for name, _, _ in self.rows), default=4)
        print(f"{'pass':<{width}} {'ms':>9} {'share':>6} {'ops after':>10}", file=self.stream)
        for name, seconds, ops in self.rows:
            share = seconds / total if total else 0.0
            line = f"{name:<{width}} {seconds * 1e3:9.2f} {share:6.1%} {ops:10d}"
            print(line, file=self.stream)
        print(f"{'total':<{width}} {total * 1e3:9.2f}", file=self.stream)


@dataclass
class DumpToFolder(Instrument):
    """Write `00-input.mlir`, `01-first-pass.mlir`, ... to a folder, with their weights."""

    folder: Path
    print_module: PrintModule

    def start(self, ctx: Context, module: ModuleOp) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write to '{self.folder}': {error.strerror}") from None
        self._write("00-input", module)

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        self._write(f"{index + 1:02d}-{module_pass.name}", module)

    def finish(self, module: ModuleOp) -> None:
        # Passes only add weights, so the last store has the weights of every dump.
        save_weights(module, self.folder / _WEIGHTS)

    def _write(self, stem: str, module: ModuleOp) -> None:
        with weights_named(module, _WEIGHTS):
            text = self.print_module(module)
        write_output(self.folder / f"{stem}.mlir", text)


@dataclass
class PrintAfter(Instrument):
    """Print the IR after the chosen passes, to stderr.

    Args:
        names: passes to print after; None means every pass.
    """

    names: Collection[str] | None
    print_module: PrintModule

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        if self.names is None or module_pass.name in self.names:
            print(f"// after {index + 1}: {module_pass.name}", file=sys.stderr)
            print(self.print_module(module), file=sys.stderr)


@dataclass
class PrintBefore(Instrument):
    """Print the IR before the chosen passes, to stderr; arguments as for `PrintAfter`."""

    names: Collection[str] | None
    print_module: PrintModule

    def before(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        if self.names is None or module_pass.name in self.names:
            print(f"// before {index + 1}: {module_pass.name}", file=sys.stderr)
            print(self.print_module(module), file=sys.stderr)


@dataclass
class PrintAfterChange(Instrument):
    """Print the IR after each pass that changed its text, to stderr."""

    print_module: PrintModule

    def start(self, ctx: Context, module: ModuleOp) -> None:
        self._text = self.print_module(module)

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        text = self.print_module(module)
        if text == self._text:
            print(f"// after {index + 1}: {module_pass.name}: no change", file=sys.stderr)
        else:
            print(f"// after {index + 1}: {module_pass.name}", file=sys.stderr)
            print(text, file=sys.stderr)
        self._text = text


@dataclass
class PrintDiff(Instrument):
    """Print what each pass added, removed and changed, function by function, to stderr."""

    def start(self, ctx: Context, module: ModuleOp) -> None:
        from tcopt.tools.passes.ir_diff import snapshot

        self._snapshot = snapshot(module)

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        from tcopt.tools.passes.ir_diff import diff, snapshot

        new = snapshot(module)
        print(f"// {index + 1}: {module_pass.name}", file=sys.stderr)
        print(diff(self._snapshot, new), file=sys.stderr)
        self._snapshot = new


@dataclass
class VerifyEach(Instrument):
    """Structural verification after each pass; an error names the pass.

    Args:
        most_ops: larger modules are not verified; None verifies all.
    """

    most_ops: int | None = None

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        if self.most_ops is not None and _has_more_ops(module, self.most_ops):
            return
        try:
            verify(module)
        except VerificationError as error:
            raise VerificationError(
                f"after pass '{module_pass.name}': "
                + (f"'{error.op_name}': " if error.op_name else "")
                + error.message,
                where=error.where,
            ) from error


def _has_more_ops(module: ModuleOp, count: int) -> bool:
    return next(islice(module.walk(), count, None), None) is not None
