"""Generation of the LLVM IR of this folder's C files: `python -m
tcopt.backends.llvm.pool.generate`.

The `.ll` files are part of the package, so users need no C compiler. Parts that depend on the
target are left open (see `text.py`); the rest is generated once, by one compiler for one target,
and then stripped of what is specific to either.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

COMPILER = "clang-19"
"""Other versions may generate different text."""

FOLDER = Path(__file__).parent
FILES: dict[str, tuple[str, ...]] = {
    "pool_linux": ("-DPOOL_LINUX", "pool.c"),
    "pool_posix": ("pool.c",),
    "interrupt": ("interrupt.c",),
    "setting": ("setting.c",),
}
"""The compiler arguments for each file."""

_OPTIONS = (
    *("-S", "-emit-llvm", "-std=c11", "-O2", "-fPIC", "--target=x86_64-unknown-linux-gnu"),
    *("-Wall", "-Wextra", "-Werror"),
    # No system headers, and no libraries except those named.
    *("-ffreestanding", "-nostdinc", "-fno-builtin"),
    # No optimisations that only some targets support well.
    *("-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops"),
    # Names as in C, and no metadata for passes that are not run.
    *("-fno-discard-value-names", "-fno-strict-aliasing", "-fno-ident"),
    *("-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
)
_DROPPED = re.compile(r"(;|source_filename|target |attributes #|!|declare .*@llvm\.lifetime)")
_LIFETIME = re.compile(r"^ *call void @llvm\.lifetime\..*\n", re.M)
_MARKS = re.compile(r" (local_unnamed_addr|unnamed_addr|nocapture|noundef)(?=[ ,)]|$)", re.M)
_NOTES = re.compile(r"(, !llvm\.loop !\d+| *; preds = .*)$", re.M)
_DEFINED = re.compile(r"^(define .*?)( #\d+)? \{$", re.M)
_ATTRIBUTES = re.compile(r" #\d+$", re.M)


def generate(name: str) -> str:
    """Return the LLVM IR of one of `FILES`.

    Raises:
        OSError, CalledProcessError: the compiler is missing, or fails.
    """
    command = [COMPILER, *_OPTIONS, *FILES[name], "-o", "-"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True)
    text = _LIFETIME.sub("", _NOTES.sub("", done.stdout))
    text = _DEFINED.sub(r"\1 nounwind {", text)
    text = _MARKS.sub("", _ATTRIBUTES.sub("", text))
    lines = [line for line in text.splitlines() if not _DROPPED.match(line)]
    declared = sorted(line for line in lines if line.startswith("declare "))
    lines = [line for line in lines if not line.startswith("declare ")]
    body = re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, "", *declared])).strip()
    source = FILES[name][-1]
    return f"; Made from {source} by generate.py. Do not edit.\n\n{body}\n"


def main() -> int:
    """Write all files."""
    for name in FILES:
        try:
            text = generate(name)
        except FileNotFoundError:
            print(f"error: {COMPILER} is needed; on Debian: apt-get install clang-19")
            return 1
        except subprocess.CalledProcessError as error:
            print(error.stderr)
            return 1
        (FOLDER / f"{name}.ll").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
