"""Rules for branches, barriers, comparisons, selects and moves."""

from __future__ import annotations

from tcopt.interpreters.ptx import layout, types
from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter, label_name
from tcopt.interpreters.ptx.ops.arithmetic import operands
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import PtxInstruction

_INTEGER = {"eq": "eq", "ne": "ne", "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_ORDERED = ("lt", "le", "gt", "ge")
_FLOAT = {"eq": "oeq", "ne": "one", "num": "ord", "nan": "uno", "neu": "une", "equ": "ueq"}


@executes("bra")
def branch(e: PtxKernelWriter, i: PtxInstruction) -> None:
    target = label_name(i.scalar(0))
    if i.guard is None:
        e.jump(f"br label %{target}")
        return
    condition, after = e.read(i.guard, "pred"), e.fresh()
    targets = (after, target) if i.negated else (target, after)
    e.jump(f"br i1 {condition}, label %{targets[0]}, label %{targets[1]}")
    e.label(after)


@executes("ret", "exit")
def end(e: PtxKernelWriter, i: PtxInstruction) -> None:
    e.jump("br label %end")


@executes("bar", "barrier")
def barrier(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Wait for all threads of the block; `bar` is always aligned."""
    if not i.has("sync") or i.operands != ("0",):
        e.refuse("only a barrier of all threads is supported")
    is_aligned = i.opcode == "bar" or i.has("aligned")
    e.suspend(layout.AT_BARRIER, "1" if is_aligned else "0")


@executes("membar", "fence")
def fence(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Emit nothing: threads run one at a time, so that memory is always consistent."""


def predicate(comparison: str, type_: str) -> str | None:
    """Return LLVM's predicate for a comparison; None if it has none."""
    if types.is_float(type_):
        if comparison in _ORDERED:
            return f"o{comparison}"
        if comparison[:-1] in _ORDERED and comparison[-1] == "u":
            return f"u{comparison[:-1]}"
        return _FLOAT.get(comparison)
    if comparison in _ORDERED:
        return f"{'s' if types.is_signed(type_) else 'u'}{comparison}"
    return _INTEGER.get(comparison)


@executes("setp")
def set_predicate(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Compare, and combine with another predicate: `setp.lt.and.s32 %p1|%p2, %r1, %r2, %p3`.

    The second result belongs to the negated comparison. For f16x2, the two results belong to the
    low and the high half.
    """
    found = predicate(i.modifiers[0], i.type)
    if found is None:
        e.refuse("comparison")
    op = "fcmp" if types.is_float(i.type) else "icmp"
    left, right = operands(e, i, 2)
    value = e.value(f"{op} {found} {types.llvm_type(i.type)} {left}, {right}")
    results = [each.strip() for each in i.scalar(0).split("|")]
    if i.type.endswith("x2"):
        values = [e.value(f"extractelement <2 x i1> {value}, i32 {half}") for half in range(2)]
    else:
        values = [value, e.value(f"xor i1 {value}, true")]
    combine = next((each for each in ("and", "or", "xor") if i.has(each)), None)
    for each, result in zip(values, results, strict=False):
        if combine is not None:
            other = i.scalar(3)
            negated = other.startswith("!")
            given = e.read(other.lstrip("!"), "pred")
            given = e.value(f"xor i1 {given}, true") if negated else given
            each = e.value(f"{combine} i1 {each}, {given}")
        e.write_bits(result, "pred", each)


@executes("selp")
def select(e: PtxKernelWriter, i: PtxInstruction) -> None:
    type_ = types.integer(i.type)
    yes, no = e.bits(i.scalar(1), i.type), e.bits(i.scalar(2), i.type)
    condition = e.read(i.scalar(3), "pred")
    e.write_bits(
        i.scalar(0), i.type, e.value(f"select i1 {condition}, {type_} {yes}, {type_} {no}")
    )


@executes("mov")
def move(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Copy a register, or pack or unpack a vector."""
    results, sources = i.vector(0), i.vector(1)
    type_ = types.integer(i.type)
    if len(results) == len(sources) == 1:
        e.write_bits(results[0], i.type, e.bits(sources[0], i.type))
        return
    part = types.bits(i.type) // max(len(results), len(sources))
    if len(sources) == 1:
        whole = e.bits(sources[0], i.type)
        for number, result in enumerate(results):
            moved = e.value(f"lshr {type_} {whole}, {number * part}")
            e.write_bits(result, f"b{part}", e.value(f"trunc {type_} {moved} to i{part}"))
        return
    packed = "0"
    for number, source in enumerate(sources):
        wide = e.value(f"zext i{part} {e.bits(source, f'b{part}')} to {type_}")
        moved = e.value(f"shl {type_} {wide}, {number * part}")
        packed = e.value(f"or {type_} {packed}, {moved}")
    e.write_bits(results[0], i.type, packed)
