"""The engine of `tcopt`: read a module, run passes over it under instruments, emit it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError

from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, Limits
from tcopt.support.errors import (
    InputError,
    ParsingError,
    PassFailedError,
    VerificationError,
)
from tcopt.support.files.access import cannot_read, open_source
from tcopt.support.pipelines.running import apply_pass, new_context
from tcopt.support.registries.registry import all_targets
from tcopt.support.suggestions import suggest
from tcopt.support.syntax.parsing import LocatedParser
from tcopt.tools.passes.dense_resources import ResourcePrinter, Resources, resolve_resources
from tcopt.tools.passes.instruments import Instrument, VerifyEach
from tcopt.tools.passes.weight_files import find_weights

__all__ = [
    "Given",
    "PrintOptions",
    "Source",
    "blame",
    "emit",
    "new_context",
    "parse_target_spec",
    "print_module",
    "run_passes",
]

_OWN = "tcopt."

_SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)


@dataclass(frozen=True)
class PrintOptions:
    """Options of printing IR as text.

    Attributes:
        resources: literals that are printed as resources.
    """

    generic: bool = False
    locations: bool = False
    resources: Resources = field(default_factory=dict[Attribute, tuple[str, str]])


@dataclass(frozen=True)
class Given:
    """Shapes and dimensions given for an ONNX model's inputs, and limits for importing it."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    limits: Limits = DEFAULT_LIMITS
    follow_links: bool = False


_MOST_BYTES = 2**31 - 1

NOTHING = Given()


@dataclass(frozen=True)
class Source:
    """One input: its name in messages, its bytes and the frontend that reads it."""

    name: str
    data: bytes
    frontend: str
    path: Path | None = None
    given: Given = NOTHING

    @classmethod
    def read(cls, path: str | None, frontend: str | None, given: Given = NOTHING) -> Source:
        """Read a file, or standard input for None and `-`.

        Raises:
            InputError: the file is missing or cannot be read.
        """
        if path is None or path == "-":
            data = _bounded(sys.stdin.buffer, "<stdin>")
            return cls("<stdin>", data, frontend or "mlir", given=given)
        file = Path(path)
        if file.is_dir():
            raise InputError(f"'{path}' is a folder, not a model or IR file")
        try:
            with open_source(file) as stream:
                data = _bounded(stream, path)
        except FileNotFoundError:
            raise InputError(f"there is no file '{path}'") from None
        except OSError as error:
            raise cannot_read(path, error) from error
        chosen = frontend or ("onnx" if file.suffix == ".onnx" else "mlir")
        return cls(path, data, chosen, file, given)

    def split(self) -> tuple[Source, ...]:
        """Split the text at `// -----` lines; each part keeps its line numbers."""
        text = self._text()
        parts: list[Source] = []
        start = 0
        for end, following in [*(m.span() for m in _SEPARATOR.finditer(text)), (len(text), 0)]:
            # Leading blank lines preserve the line numbers of the whole file.
            padding = "\n" * text.count("\n", 0, start)
            data = (padding + text[start:end]).encode()
            parts.append(replace(self, data=data))
            start = following
        return tuple(parts)

    def parse(self, ctx: Context, resources: Resources | None = None) -> ModuleOp:
        """Parse or import the module.

        Args:
            resources: receives the resources of a text, which become literals of the module.
        Raises:
            xdsl.utils.exceptions.ParseError: the text is not IR.
            TcoptError: the ONNX model cannot be imported.
        """
        if self.frontend == "onnx":
            from tcopt.frontends.onnx.importer import import_model

            model = self.path if self.path is not None else self.data
            given = self.given
            return import_model(
                model,
                shapes=given.shapes,
                dims=given.dims,
                limits=given.limits,
                follow_links=given.follow_links,
            )
        text = self._text()
        if not text.strip():
            raise InputError(
                f"'{self.name}' is empty", hint="an empty module is 'builtin.module {}'"
            )
        module = LocatedParser(ctx, text, self.name).parse_module()
        found = resolve_resources(ctx, module)
        if resources is not None:
            resources.update(found)
        if self.path is not None:
            find_weights(module, self.path)
        return module

    def _text(self) -> str:
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(
                f"'{self.name}' is not text", hint="-f onnx reads an ONNX model"
            ) from None


def _bounded(stream: IO[bytes], name: str) -> bytes:
    """Read a stream, up to a size limit."""
    data = stream.read(_MOST_BYTES + 1) or b""
    if len(data) > _MOST_BYTES:
        raise InputError(f"'{name}' has more than {_MOST_BYTES} bytes")
    return data


def run_passes(
    ctx: Context,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    instruments: Sequence[Instrument],
) -> None:
    """Apply passes in order; instruments run before the first pass and after each.

    Raises:
        TcoptError: a pass failed; the message names the pass.
    """
    for instrument in instruments:
        instrument.start(ctx, module)
    for index, module_pass in enumerate(passes):
        for instrument in instruments:
            instrument.before(index, module_pass, module)
        _check_functions(module_pass, module)
        apply_pass(ctx, module, module_pass)
        # Instruments run in reverse order, so that the clock stops before the others take time.
        for instrument in reversed(instruments):
            instrument.after(index, module_pass, module)
    for instrument in instruments:
        instrument.finish(module)


def _check_functions(module_pass: ModulePass, module: ModuleOp) -> None:
    """Check that each function is one block, as this project's passes require."""
    if not type(module_pass).__module__.startswith(_OWN):
        return
    for op in module.ops:
        if isinstance(op, FuncOp) and len(op.body.blocks) > 1:
            raise PassFailedError(
                f"pass '{module_pass.name}' works on functions of one block, "
                f"@{op.sym_name.data} has {len(op.body.blocks)}",
                op=op,
            )


def blame(
    ctx: Context, read: Callable[[], ModuleOp], passes: Sequence[ModulePass], error: Exception
) -> Exception:
    """Return the error to show when a pipeline fails: that of the first pass that left invalid IR.

    Invalid IR of a pass may only fail in a later one. So the passes run again, with verification
    after each.

    Args:
        read: returns the module before the first pass.
        error: the original error, which is returned if all intermediate IR is valid.
    """
    try:
        run_passes(ctx, read(), passes, [VerifyEach()])
    except VerificationError as found:
        return found
    except Exception:
        return error
    return error


def print_module(module: ModuleOp, options: PrintOptions | None = None) -> str:
    """Return a module as text, ending in a newline."""
    options = options or PrintOptions()
    stream = StringIO()
    printer = ResourcePrinter(
        stream,
        options.resources,
        print_generic_format=options.generic,
        print_debuginfo=options.locations,
    )
    printer.print_op(module)
    printer.print_resources()
    return stream.getvalue() + "\n"


def emit(ctx: Context, module: ModuleOp, spec_text: str, options: PrintOptions) -> str:
    """Return a module in the format of a target such as `mlir` or `llvm`.

    Raises:
        TcoptError: the target is unknown or cannot express the module.
    """
    spec = parse_target_spec(spec_text)
    if spec.name == "mlir":
        return print_module(module, options)
    try:
        target = all_targets()[spec.name]().from_spec(spec)
    except (ValueError, TypeError) as error:
        raise ParsingError(f"target '{spec_text}': {error}") from None
    stream = StringIO()
    target.emit(ctx, module, stream)
    return stream.getvalue()


def parse_target_spec(text: str, targets: Mapping[str, object] | None = None) -> ArgSpec:
    """Parse `name{option=value}` and check that the target exists."""
    try:
        spec = parse_spec(text)
    except ArgSpecParseError:
        raise ParsingError(f"target '{text}' does not parse") from None
    known = all_targets() if targets is None else targets
    if spec.name not in known:
        hint = suggest(spec.name, known) or f"targets are {', '.join(sorted(known))}"
        raise ParsingError(f"there is no target '{spec.name}'", hint=hint)
    return spec
