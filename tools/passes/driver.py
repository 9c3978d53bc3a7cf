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
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError

from tcopt.frontends.onnx.model.options import NO_OPTIONS, ImportOptions
from tcopt.support.errors import (
    InputError,
    ParsingError,
    VerificationError,
)
from tcopt.support.files.access import cannot_read, open_source
from tcopt.support.pipelines.running import run_passes
from tcopt.support.registries.registry import all_targets
from tcopt.support.suggestions import suggest
from tcopt.support.syntax.parsing import LocatedParser
from tcopt.tools.passes.dense_resources import ResourcePrinter, Resources, resolve_resources
from tcopt.tools.passes.instruments import VerifyEach
from tcopt.tools.passes.weight_files import find_weights

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


_MOST_BYTES = 2**31 - 1


@dataclass(frozen=True)
class InputText:
    """One input: its name in messages, its bytes and the frontend that reads it."""

    name: str
    data: bytes
    frontend: str
    path: Path | None = None
    given: ImportOptions = NO_OPTIONS

    @classmethod
    def read(
        cls, path: str | None, frontend: str | None, given: ImportOptions = NO_OPTIONS
    ) -> InputText:
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

    def split(self) -> tuple[InputText, ...]:
        """Split the text at `// -----` lines; each part keeps its line numbers."""
        text = self._text()
        parts: list[InputText] = []
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
            from tcopt.frontends.onnx.importer import import_whole

            return import_whole(self.data if self.path is None else self.path, self.given)
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
