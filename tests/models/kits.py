"""Kits of models, and C programs that run them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tcopt
from tcopt.backends.llvm.machine.linker import find_linker
from tcopt.runtime.program import Program

Array = NDArray[Any]

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
needs_cpp = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")

_DRIVER = Path(__file__).with_name("kit_driver.c")


@dataclass(frozen=True)
class Kit:
    """A kit in a folder, with a program that runs it."""

    folder: Path
    model: tcopt.Model

    @classmethod
    def of(cls, models: tcopt.Model | list[tcopt.Model], folder: Path, **options: Any) -> Kit:
        """Export a model under the name `net`, and build the driver with the static library.

        Args:
            models: as for `export_kit`. Results are compared to the results of the first model.
        """
        tcopt.export_kit(models, folder, name="net", **options)
        kit = cls(folder, models[0] if isinstance(models, list) else models)
        kit.build(_DRIVER.read_text(), "driver")
        return kit

    def build(self, source: str, name: str, *flags: str, language: str = "c") -> Path:
        """Compile a program with the static library; return its path."""
        suffix = {"c": ".c", "c++": ".cpp"}[language]
        text, program = self.folder / f"{name}{suffix}", self.folder / name
        text.write_text(source)
        assert isinstance(self.model.program, Program)
        command = ("c++",) if language == "c++" else find_linker(self.model.program.target)
        assert command is not None
        macros = ['-DMODEL_HEADER="net.h"', "-DDESCRIPTOR=tcopt_descriptor_net"]
        parts = [f"-I{self.folder}/include", str(text), f"{self.folder}/lib/libnet.a"]
        libraries = ["-lm", "-lpthread"]
        options = [*WARNINGS, *flags, *macros, *parts, *libraries, "-o", str(program)]
        subprocess.run([*command, *options], check=True)
        return program

    def run(
        self,
        feeds: Mapping[str, Array],
        *,
        threads: int = 2,
        weights: str = "",
        runner: Sequence[str] = (),
    ) -> list[Array]:
        """Return the outputs that the driver computes.

        Args:
            runner: the command that runs programs for the model's CPU.
        Raises:
            KitError: it ends with a status.
        """
        given: list[str] = []
        for number, spec in enumerate(self.model.program.inputs):
            file = self.folder / f"in{number}.bin"
            file.write_bytes(feeds[spec.name].tobytes())
            given.append(f"{file}:{','.join(map(str, feeds[spec.name].shape))}")
        command = [*runner, str(self.folder / "driver"), str(threads), weights, *given]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KitError(done.stderr.partition(":")[0], done.stderr)
        shapes = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        return [
            np.frombuffer((self.folder / f"out{n}.bin").read_bytes(), spec.dtype).reshape(shape)
            for n, (spec, shape) in enumerate(zip(self.model.outputs, shapes, strict=True))
        ]

    def check(self, *runs: Mapping[str, Array]) -> None:
        """Check that runs without Python give the same results as runs with it."""
        for feeds in runs:
            for ours, expected in zip(self.run(feeds), self.model.run(feeds), strict=True):
                np.testing.assert_array_equal(ours, expected)


class KitError(Exception):
    """The status and message that a program ended with."""

    def __init__(self, status: str, message: str):
        super().__init__(message)
        self.status = status


def random_feeds(model: tcopt.Model, shapes: Sequence[tuple[int, ...]] = ()) -> dict[str, Array]:
    """Return values for the inputs, of their fixed shapes or the given ones."""
    generator = np.random.default_rng(5)
    found: dict[str, Array] = {}
    for number, spec in enumerate(model.inputs):
        shape = shapes[number] if shapes else tuple(d for d in spec.shape if isinstance(d, int))
        values = generator.standard_normal(shape) * (1 if spec.dtype.kind == "f" else 20)
        found[spec.name] = values.astype(spec.dtype)
    return found
