"""Rules for warp-level instructions, by which lanes exchange values."""

from __future__ import annotations

from tcopt.interpreters.ptx import layout, types
from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import PtxInstruction


@executes("shfl")
def shuffle(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Read a value of another lane, or the lane's own if the source is outside its segment."""
    result, _, inside_name = (part.strip() for part in i.scalar(0).partition("|"))
    value, by, clamp, mask = (e.bits(i.scalar(n), "b32") for n in (1, 2, 3, 4))
    e.meet([value], mask)
    lane = e.lane()
    by, clamp = (e.bits(i.scalar(n), "b32") for n in (2, 3))
    segment = e.value(f"lshr i32 {clamp}, 8")
    segment = e.value(f"and i32 {segment}, 31")
    bound = e.value(f"and i32 {clamp}, 31")
    start = e.value(f"and i32 {lane}, {segment}")
    rest = e.value(f"xor i32 {segment}, -1")
    kept = e.value(f"and i32 {bound}, {rest}")
    last = e.value(f"or i32 {start}, {kept}")
    distance = e.value(f"and i32 {by}, 31")
    if i.has("idx"):
        within = e.value(f"and i32 {distance}, {rest}")
        source = e.value(f"or i32 {start}, {within}")
    else:
        op = "xor" if i.has("bfly") else "sub" if i.has("up") else "add"
        source = e.value(f"{op} i32 {lane}, {distance}")
    inside = e.value(f"icmp {'sge' if i.has('up') else 'sle'} i32 {source}, {last}")
    source = e.value(f"select i1 {inside}, i32 {source}, i32 {lane}")
    _require_lane(e, source, e.bits(i.scalar(4), "b32"))
    e.write_bits(result, "b32", e.handed(source, 0))
    if inside_name:
        e.write_bits(inside_name, "pred", inside)


def _require_lane(e: PtxKernelWriter, source: str, mask: str) -> None:
    """Check that the source lane takes part in the exchange."""
    bit = e.value(f"lshr i32 {mask}, {source}")
    low = e.value(f"trunc i32 {bit} to i1")
    e.require(e.value(f"call i1 @ptx.check_lane({_here(e)}, i32 {source}, i1 {low})"))


def _here(e: PtxKernelWriter) -> str:
    line = 0 if e.instruction is None else e.instruction.line
    return f"ptr %block, ptr %thread, i32 {line}"


@executes("vote")
def vote(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Test if a predicate holds in all or any lanes, or return the mask of lanes where it does."""
    operand = i.scalar(1)
    given = e.read(operand.lstrip("!"), "pred")
    given = e.value(f"xor i1 {given}, true") if operand.startswith("!") else given
    mask = e.bits(i.scalar(2), "b32")
    e.meet([e.value(f"zext i1 {given} to i32")], mask)
    ballot = "0"
    for lane, there in _members(e, e.bits(i.scalar(2), "b32")):
        one = e.value(f"and i32 {e.handed(str(lane), 0)}, {there}")
        moved = e.value(f"shl i32 {one}, {lane}")
        ballot = e.value(f"or i32 {ballot}, {moved}")
    if i.has("ballot"):
        e.write_bits(i.scalar(0), "b32", ballot)
        return
    mask = e.bits(i.scalar(2), "b32")
    test = {"any": f"icmp ne i32 {ballot}, 0", "all": f"icmp eq i32 {ballot}, {mask}"}
    found = next((test[each] for each in test if i.has(each)), None)
    e.write_bits(i.scalar(0), "pred", e.value(found or e.refuse("mode")))


@executes("redux")
def reduce(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Reduce an integer over lanes by a sum, minimum, maximum or bitwise operation."""
    op = i.modifiers[1]
    mask = e.bits(i.scalar(2), "b32")
    e.meet([e.bits(i.scalar(1), "b32")], mask)
    sign = "s" if types.is_signed(i.type) else "u"
    neutral = {"and": "-1", "min": "2147483647" if sign == "s" else "-1"}
    neutral["max"] = "-2147483648" if sign == "s" else "0"
    total = neutral.get(op, "0")
    for lane, there in _members(e, e.bits(i.scalar(2), "b32")):
        is_there = e.value(f"trunc i32 {there} to i1")
        value = e.handed(str(lane), 0)
        value = e.value(f"select i1 {is_there}, i32 {value}, i32 {neutral.get(op, '0')}")
        if op in ("min", "max"):
            total = e.value(f"call i32 @llvm.{sign}{op}.i32(i32 {total}, i32 {value})")
        else:
            total = e.value(f"{op} i32 {total}, {value}")
    e.write_bits(i.scalar(0), "b32", total)


def _members(e: PtxKernelWriter, mask: str) -> list[tuple[int, str]]:
    """Return each lane with a value that is 1 if the mask includes the lane, else 0."""
    found: list[tuple[int, str]] = []
    for lane in range(layout.LANES):
        bit = e.value(f"lshr i32 {mask}, {lane}")
        found.append((lane, e.value(f"and i32 {bit}, 1")))
    return found
