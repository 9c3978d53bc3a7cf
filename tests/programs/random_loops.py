"""Random loop functions as text, including forms that no tensor expression produces."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

EXTENTS = (1, 2, 3, 4, 5)
BUFFERS = {"x": (12,), "y": (16,), "z": (6, 7), "w": (5, 5)}
DATA = "memref<12xindex>"
"""Data-dependent indices, in [0, 4)."""


@dataclass
class _Writer:
    rng: random.Random
    lines: list[str] = field(default_factory=list)
    buffers: dict[str, tuple[int, ...]] = field(default_factory=lambda: dict(BUFFERS))
    count: int = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"


def random_function(seed: int) -> str:
    """Return a function @f over a few small buffers that any nest may read and write."""
    w = _Writer(random.Random(seed))
    arguments = ", ".join(f"%{name}: {_type(shape)}" for name, shape in BUFFERS.items())
    w.line(0, f"loop.func @f({arguments}, %p: {DATA}) {{")
    for name in ("t", "u")[: w.rng.randrange(3)]:
        w.buffers[name] = shape = w.rng.choice([(10,), (5, 6)])
        w.line(1, f"%{name} = loop.alloc global : {_type(shape)}")
    for _ in range(w.rng.choice((1, 1, 2, 2, 3))):
        _nest(w, 1, [])
    w.line(0, "}")
    return "\n".join(w.lines)


def random_stages(seed: int) -> str:
    """Return a function @f whose nests each write their own buffer, like stages of a tensor
    expression, but with more irregular indices and loops."""
    w = _Writer(random.Random(seed))
    results: list[str] = []
    count = w.rng.choice((2, 3, 3, 4))
    base = [w.rng.choice(EXTENTS) for _ in range(w.rng.choice((1, 2, 2)))]
    for number in range(count):
        name = w.name("s")
        extents = [max(1, n - w.rng.choice((0, 0, 0, 1, 2))) for n in base]
        spare = w.rng.choice((0, 0, 0, 1, 2))
        shape = tuple(extent + spare for extent in extents)
        if number == count - 1 or w.rng.random() < 0.2:
            results.append(f"%{name}: {_type(shape)}")
        else:
            w.line(1, f"%{name} = loop.alloc global : {_type(shape)}")
        _stage(w, name, extents, spare)
        w.buffers[name] = shape
    arguments = ", ".join([*(f"%{n}: {_type(s)}" for n, s in BUFFERS.items()), f"%p: {DATA}"])
    head = f"loop.func @f({', '.join([arguments, *results])}) {{"
    return "\n".join([head, *w.lines, "}"])


def _stage(w: _Writer, target: str, extents: list[int], spare: int) -> None:
    reduced = [w.rng.choice(EXTENTS) for _ in range(w.rng.choice((0, 0, 0, 1, 2)))]
    loops = [w.name("i") for _ in (*extents, *reduced)]
    places = list(range(len(loops)))
    if w.rng.random() < 0.3:
        w.rng.shuffle(places)
    sizes = [*extents, *reduced]
    for depth, place in enumerate(places):
        w.line(1 + depth, f"loop.for %{loops[place]} = 0 to {sizes[place]} {{")
    kinds = [number >= len(extents) for number in range(len(sizes))]
    variables = [_Variable(w.name("v"), n, kind) for n, kind in zip(sizes, kinds, strict=True)]
    offset = w.rng.randrange(spare + 1)
    store = ", ".join(
        f"%{v.name} + {offset}" if offset else f"%{v.name}" for v in variables[: len(extents)]
    )
    head = ", ".join(
        f"%{v.name}: {'reduce' if v.is_reduce else 'spatial'} {v.extent} = %{loop}"
        for v, loop in zip(variables, loops, strict=True)
    )
    shape = tuple(extent + spare for extent in extents)
    w.line(1 + len(loops), f'loop.block "{w.name("b")}" ({head}) {{')
    readable = w.buffers
    w.buffers = {**readable, target: shape}
    _body(w, 2 + len(loops), target, store, variables, bool(reduced), readable)
    w.buffers = readable
    w.line(1 + len(loops), "}")
    for depth in reversed(range(len(loops))):
        w.line(1 + depth, "}")


def _type(shape: tuple[int, ...]) -> str:
    return f"memref<{'x'.join(map(str, shape))}xf32>"


def _nest(w: _Writer, depth: int, loops: list[tuple[str, int]]) -> None:
    """Loops around one block, occasionally with other code next to it."""
    added = w.rng.choice((1, 1, 2, 2, 3)) if not loops else w.rng.choice((0, 1, 1))
    around = list(loops)
    for number in range(added):
        name, extent = w.name("i"), w.rng.choice(EXTENTS)
        w.line(depth + number, f"loop.for %{name} = 0 to {extent} {{")
        around.append((name, extent))
    inner = depth + added
    if w.rng.random() < 0.05 and around:
        _loose(w, inner, around)
    _block(w, inner, around)
    if len(loops) < 2 and w.rng.random() < 0.25:
        _nest(w, inner, around)
    for number in reversed(range(added)):
        w.line(depth + number, "}")
        if number and w.rng.random() < 0.1:
            _block(w, depth + number, around[: len(loops) + number])


def _loose(w: _Writer, depth: int, around: list[tuple[str, int]]) -> None:
    """A store outside blocks."""
    name, extent = w.rng.choice(around)
    shape = w.buffers["y"]
    value, index = w.name("v"), f"%{name} + {w.rng.randrange(shape[0] - extent)}"
    w.line(depth, f"%{value} = loop.load %x[%{name}] : {_type(w.buffers['x'])}")
    w.line(depth, f"loop.store %{value}, %y[{index}] : {_type(shape)}")


@dataclass
class _Variable:
    name: str
    extent: int
    is_reduce: bool


def _block(w: _Writer, depth: int, around: list[tuple[str, int]]) -> None:
    rng = w.rng
    variables: list[_Variable] = []
    bindings: list[str] = []
    rest = list(around)
    rng.shuffle(rest) if rng.random() < 0.2 else None
    reduces = rng.random() < 0.4
    while rest:
        name, extent = rest.pop(0)
        binding = f"%{name}"
        if rest and rng.random() < 0.15:
            other, size = rest.pop(0)
            binding, extent = f"%{name} * {size} + %{other}", extent * size
        if rng.random() < 0.1:
            extent = max(extent - 1, 1)
        elif rng.random() < 0.06:
            continue
        variables.append(_Variable(w.name("v"), extent, reduces and rng.random() < 0.5))
        bindings.append(binding)
    spatial = [each for each in variables if not each.is_reduce]
    target = rng.choice(sorted(w.buffers))
    store = _place(w, target, spatial)
    if store is None:
        return
    parts = zip(variables, bindings, strict=True)
    head = ", ".join(
        f"%{v.name}: {'reduce' if v.is_reduce else 'spatial'} {v.extent} = {b}" for v, b in parts
    )
    w.line(depth, f'loop.block "{w.name("b")}" ({head}) {{')
    has_reduce = len(spatial) < len(variables)
    _body(w, depth + 1, target, store, variables, has_reduce)
    w.line(depth, "}")


def _body(
    w: _Writer,
    depth: int,
    target: str,
    store: str,
    variables: list[_Variable],
    reduces: bool,
    readable: Mapping[str, tuple[int, ...]] | None = None,
) -> None:
    """Loads, a computation on them, and the store, which rarely uses the element's old value."""
    rng = w.rng
    place = f"%{target}[{store}] : {_type(w.buffers[target])}"
    if reduces and rng.random() < 0.85:
        start = w.name("c")
        w.line(depth, "loop.init {")
        w.line(depth + 1, f"%{start} = arith.constant {rng.choice(('0.0', '2.0'))} : f32")
        w.line(depth + 1, f"loop.store %{start}, {place}")
        w.line(depth, "}")
    names = sorted(w.buffers) if readable is None else sorted(readable)
    stages = [name for name in names if name.startswith("s")]
    if stages and rng.random() < 0.8:
        names = stages
    terms = [_load(w, depth, variables, names) for _ in range(rng.choice((1, 1, 2)))]
    value = terms[0]
    for other in terms[1:]:
        value = _combine(w, depth, rng.choice(("addf", "subf", "maximumf")), value, other)
    if reduces or rng.random() < (0.2 if readable is None else 0.03):
        total = w.name("a")
        w.line(depth, f"%{total} = loop.load {place}")
        if rng.random() < 0.2:
            half = w.name("c")
            w.line(depth, f"%{half} = arith.constant 2.0 : f32")
            total = _combine(w, depth, "mulf", total, half)
        operands = [total, value] if rng.random() < 0.8 else [value, total]
        value = _combine(w, depth, rng.choice(("addf", "addf", "maximumf")), *operands)
        if rng.random() < 0.05:
            value = _combine(w, depth, "subf", value, operands[0])
    w.line(depth, f"loop.store %{value}, {place}")


def _combine(w: _Writer, depth: int, op: str, left: str, right: str) -> str:
    name = w.name("r")
    w.line(depth, f"%{name} = arith.{op} %{left}, %{right} fastmath<reassoc,contract> : f32")
    return name


def _load(w: _Writer, depth: int, variables: list[_Variable], choices: list[str]) -> str:
    rng = w.rng
    name = w.name("l")
    for _ in range(4):
        buffer = rng.choice(choices)
        place = _place(w, buffer, variables)
        if place is not None:
            break
    else:
        w.line(depth, f"%{name} = arith.constant 3.0 : f32")
        return name
    if rng.random() < 0.06 and variables and _takes_data(w.buffers[buffer]):
        any_, last, found = w.name("d"), w.name("c"), w.name("d")
        index = f"%{variables[0].name} mod 12"
        w.line(depth, f"%{any_} = loop.load %p[{index}] : {DATA}")
        w.line(depth, f"%{last} = arith.constant {w.buffers[buffer][0] - 1} : index")
        w.line(depth, f"%{found} = arith.minui %{any_}, %{last} : index")
        place = f"%{found}"
    default = " else 1.0" if rng.random() < 0.1 else ""
    w.line(depth, f"%{name} = loop.load %{buffer}[{place}]{default} : {_type(w.buffers[buffer])}")
    return name


def _takes_data(shape: tuple[int, ...]) -> bool:
    return len(shape) == 1 and shape[0] >= 4


def _place(w: _Writer, buffer: str, variables: list[_Variable]) -> str | None:
    """In-bounds indices over some of the variables."""
    rng = w.rng
    exprs: list[str] = []
    rest = list(variables)
    for extent in w.buffers[buffer]:
        found = _index(rng, extent, rest)
        if found is None:
            return None
        exprs.append(found)
    if rest and rng.random() < 0.6:
        return None
    return ", ".join(exprs)


def _index(rng: random.Random, extent: int, rest: list[_Variable]) -> str | None:
    if not rest or rng.random() < 0.1:
        return str(rng.randrange(extent))
    variable = rest.pop(0) if rng.random() < 0.9 else rng.choice(rest)
    text, high = f"%{variable.name}", variable.extent - 1
    kind = rng.random()
    if kind < 0.08:
        text, high = f"{text} floordiv 2", high // 2
    elif kind < 0.14:
        text, high = f"{text} mod 3", min(high, 2)
    elif kind < 0.22:
        text, high = f"{text} * 2", high * 2
    elif kind < 0.3:
        text = f"{high} - {text}"
    elif kind < 0.4 and rest:
        other = rest.pop(0)
        scale = rng.choice((1, other.extent, other.extent))
        text, high = f"{text} * {scale} + %{other.name}", high * scale + other.extent - 1
    if high >= extent:
        return None
    offset = rng.choice((0, 0, 1, rng.randrange(extent - high)))
    return f"{text} + {offset}" if 0 < offset < extent - high else text
