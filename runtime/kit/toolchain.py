"""The C compiler and binary utilities that build a kit, in one private folder."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tcopt.backends.llvm.machine.linker import find_linker, linkers
from tcopt.support.errors import BackendError
from tcopt.support.machines.cpu_target import CpuTarget

_OPTIONS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-Wall")
_FREESTANDING = ("-DTCOPT_FREESTANDING", "-ffreestanding")


@dataclass(frozen=True)
class Toolchain:
    """The tools for a target.

    All files are named relative to `folder`, so that results do not depend on its name.

    Args:
        command: the compiler.
        folder: where the tools run.
        freestanding: whether code is compiled without a C library.
    """

    command: tuple[str, ...]
    folder: Path
    freestanding: bool

    @classmethod
    def of(cls, target: CpuTarget, folder: Path, *, freestanding: bool) -> Toolchain:
        """Return the tools for a target.

        Raises:
            BackendError: there is no C compiler for it.
        """
        command = find_linker(target)
        if command is None:
            names = " or ".join(names[0] for names in linkers(target))
            raise BackendError(
                f"a library for {target.triple} needs a C compiler, and none was found",
                hint=f"install {names} with its binary utilities, or save a .tcm file instead",
            )
        return cls(command, folder, freestanding)

    def compile(self, source: str, result: str, *include: Path) -> None:
        """Compile a C or assembly file to an object file."""
        options = (*_OPTIONS, *(_FREESTANDING if self.freestanding else ()))
        paths = [f"-I{path}" for path in include]
        self._run([*self.command, *options, *paths, "-c", source, "-o", result])

    def join(
        self,
        objects: Sequence[str],
        result: str,
        keep: str,
        *,
        renamed: tuple[str, str] | None = None,
    ) -> None:
        """Combine object files to one in which all definitions are local except some.

        Args:
            keep: the symbol that other objects use, or a pattern of such symbols.
            renamed: a symbol and its new name, which `keep` refers to.
        """
        self._run([*self.command, "-r", "-nostdlib", "-o", result, *objects])
        options = ["--wildcard", f"--keep-global-symbol={keep}", "--discard-all"]
        if renamed is not None:
            self._run([self._utility("objcopy"), f"--redefine-sym={'='.join(renamed)}", result])
        self._run([self._utility("objcopy"), *options, result])

    def archive(self, objects: Sequence[str], result: str) -> None:
        """Write a static library."""
        self._run([self._utility("ar"), "rcsD", result, *objects])

    def link(self, objects: Sequence[str], result: str) -> None:
        """Link a shared library.

        It stays loaded after dlclose, because threads of the pool run its code.
        """
        options = ("-Wl,-z,nodelete", "-Wl,-z,noexecstack", "-Wl,-Bsymbolic", "-Wl,--no-undefined")
        libraries = ("-Wl,--as-needed", "-lm", "-lpthread")
        name = f"-Wl,-soname,{result}"
        self._run([*self.command, "-shared", "-o", result, *objects, name, *options, *libraries])

    def _utility(self, name: str) -> str:
        return _utility(self.command, name)

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            reason = " ".join(done.stderr.strip().splitlines()[:2])
            raise BackendError(f"{Path(command[0]).name} failed to build the library: {reason}")


@cache
def _utility(command: tuple[str, ...], name: str) -> str:
    """Return the path of a binary utility that belongs to a compiler."""
    done = subprocess.run(
        [*command, f"-print-prog-name={name}"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or name
