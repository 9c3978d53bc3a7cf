"""Rules for warp-level matrix loads and products."""

from __future__ import annotations

from functools import cache

from tcopt.interpreters.ptx import layout
from tcopt.interpreters.ptx.function_text import FunctionText
from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter
from tcopt.interpreters.ptx.ops.memory import checked
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import PtxInstruction

_ALL = "-1"
"""Mask of all lanes of a warp."""


@executes("ldmatrix")
def load_matrices(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Load 8 x 8 matrices of 16-bit elements; lanes 8n to 8n + 7 hold the row addresses of the
    n-th matrix."""
    if not (i.has("m8n8") and i.has("shared") and i.has("b16")):
        e.refuse("shape")
    results = i.vector(0)
    _check_row(e, i, len(results))
    e.meet([e.resize(e.address(i.scalar(1)), 64, 32, False)], _ALL)
    lane = e.lane()
    row = e.value(f"lshr i32 {lane}, 2")
    pair = e.value(f"and i32 {lane}, 3")
    for number, result in enumerate(results):
        if i.has("trans"):
            # Transposed: the lane's two elements come from adjacent rows in memory.
            words: list[str] = []
            for half in (0, 1):
                first = e.value(f"shl i32 {pair}, 1")
                source = e.value(f"add i32 {first}, {8 * number + half}")
                words.append(_half(e, e.handed(source, 0), row))
            high = e.value(f"shl i32 {words[1]}, 16")
            word = e.value(f"or i32 {words[0]}, {high}")
        else:
            source = e.value(f"add i32 {row}, {8 * number}")
            low = e.value(f"shl i32 {pair}, 1")
            parts = [
                _half(e, e.handed(source, 0), e.value(f"add i32 {low}, {half}")) for half in (0, 1)
            ]
            high = e.value(f"shl i32 {parts[1]}, 16")
            word = e.value(f"or i32 {parts[0]}, {high}")
        e.write_bits(result, "b32", word)


def _half(e: PtxKernelWriter, address: str, number: str) -> str:
    """Load a 16-bit element of a row in shared memory, extended to 32 bits.

    The lane that holds the row's address checks the access, see `_check_row`.
    """
    memory = e.field("%block", layout.offset(layout.PtxBlock, "shared"), "ptr")
    bytes_ = e.value(f"shl i32 {number}, 1")
    place = e.value(f"add i32 {address}, {bytes_}")
    pointer = e.value(f"getelementptr i8, ptr {memory}, i32 {place}")
    return e.value(f"zext i16 {e.value(f'load i16, ptr {pointer}, align 2')} to i32")


def _check_row(e: PtxKernelWriter, i: PtxInstruction, matrices: int) -> None:
    """Check the access to a row of 16 bytes, in each lane whose address is used."""
    used = e.value(f"icmp ult i32 {e.lane()}, {8 * matrices}")
    check, after = e.fresh(), e.fresh()
    e.jump(f"br i1 {used}, label %{check}, label %{after}")
    e.label(check)
    checked(e, "shared", i.scalar(1), 16, is_store=False)
    e.label(after)


@executes("mma")
def multiply_matrices(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Multiply matrices of f16 or bf16 and add an f32 matrix, all distributed over the lanes."""
    shapes = {"m16n8k16": 16, "m16n8k8": 8}
    depth = next((shapes[each] for each in shapes if i.has(each)), None)
    kind = next((each for each in _HALF if i.modifiers.count(each) == 2), None)
    if depth is None or kind is None or i.modifiers.count("f32") != 2:
        e.refuse("shape or types")
    left, right, start = i.vector(1), i.vector(2), i.vector(3)
    e.meet([e.bits(word, "b32") for word in (*left, *right)], _ALL)
    name = e.helper(f"ptx.mma_{kind}_{depth}", _product(kind, depth))
    sums = ", ".join(f"float {e.read(word, 'f32')}" for word in start)
    found = e.value(f"call [4 x float] @{name}(ptr %thread, {sums})")
    for number, result in enumerate(i.vector(0)):
        e.write(result, "f32", e.value(f"extractvalue [4 x float] {found}, {number}"))


@cache
def _product(kind: str, depth: int) -> str:
    """Return the function that computes a lane's four results from the operands of its warp.

    Lane 4r + q computes columns 2q and 2q + 1 of rows r and r + 8. Lanes 4r to 4r + 3 hold rows r
    and r + 8 of the left operand, two adjacent elements a word: the first two words hold rows r and
    r + 8 of the first eight columns, the next two the next eight. Lanes 4c to 4c + 3
    hold column c of the right operand.
    """
    e = FunctionText()
    lane = e.lane()
    group = e.value(f"and i32 {lane}, -4")
    columns = e.value(f"and i32 {lane}, 3")
    columns = e.value(f"shl i32 {columns}, 3")
    next_column = e.value(f"add i32 {columns}, 4")

    def along(base: str, first: int, step: int) -> list[str]:
        """Return the elements of a row or column along the contracted dimension."""
        found: list[str] = []
        for pair in range(depth // 2):
            source = e.value(f"add i32 {base}, {pair % 4}")
            word = e.handed(source, first + step * (pair // 4))
            for half in (word, e.value(f"lshr i32 {word}, 16")):
                found.append(_HALF[kind](e, half))
        return found

    rows = [along(group, half, 2) for half in (0, 1)]
    cols = [along(base, depth // 4, 1) for base in (columns, next_column)]
    result = "undef"
    for number in range(4):
        total = f"%sum{number}"
        for a, b in zip(rows[number // 2], cols[number % 2], strict=True):
            total = e.value(f"call float @llvm.fma.f32(float {a}, float {b}, float {total})")
        result = e.value(f"insertvalue [4 x float] {result}, float {total}, {number}")
    sums = ", ".join(f"float %sum{number}" for number in range(4))
    head = f"define internal [4 x float] @ptx.mma_{kind}_{depth}(ptr %thread, {sums}) noinline {{"
    return "\n".join([head, *e.lines, f"  ret [4 x float] {result}", "}"])


def _f16(e: FunctionText, word: str) -> str:
    """Convert the f16 in the low half of a word to float."""
    bits = e.value(f"trunc i32 {word} to i16")
    return e.value(f"fpext half {e.value(f'bitcast i16 {bits} to half')} to float")


def _bf16(e: FunctionText, word: str) -> str:
    return e.value(f"bitcast i32 {e.value(f'shl i32 {word}, 16')} to float")


_HALF = {"f16": _f16, "bf16": _bf16}
"""Functions that convert the low half of a word to float, by element type."""
