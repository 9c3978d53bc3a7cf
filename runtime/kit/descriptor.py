"""The constant data of a model as C source, see `c/internal.h`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tcopt
from tcopt.runtime.kit.cpu_features import Bit
from tcopt.runtime.kit.formulas import Equation, equations, formula
from tcopt.runtime.kit.image import FORMAT, Image
from tcopt.runtime.program import Program
from tcopt.runtime.specs import TensorSpec, bytes_of, memory_of
from tcopt.support.arithmetic.sizes import Size, bounds_of
from tcopt.support.errors import UnsupportedError

_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
    "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14,
    "complex128": 15, "bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18,
    "float8_e5m2": 19, "float8_e5m2fnuz": 20, "uint4": 21, "int4": 22, "float4_e2m1fn": 23,
    "float8_e8m0fnu": 24, "uint2": 25, "int2": 26,
}  # fmt: skip
"""Numbers of element types in `tcopt.h`, which are ONNX's."""


def symbol_of(name: str) -> str:
    """Return the function that returns the descriptor of a model."""
    return f"tcopt_descriptor_{name}"


def descriptor_text(
    name: str,
    programs: Sequence[Program],
    bits: Sequence[list[Bit]],
    image: Image,
    *,
    embedded: bool,
) -> str:
    """Return the C source of a model's descriptor.

    Args:
        name: the C identifier of the model.
        programs: the program of each CPU level, the best one first.
        bits: the features that each of them needs.
        embedded: whether the image is in the library.
    """
    first = programs[0]
    symbols = [*first.sizes, *first.defined]
    numbers = {symbol.name: number for number, symbol in enumerate(symbols)}
    inputs, outputs = ([*map(memory_of, specs)] for specs in (first.inputs, first.outputs))
    solved = equations(inputs, numbers)
    declared = [f"int32_t level{number}_main(void **arguments);" for number in range(len(programs))]
    lines = [
        '#include "internal.h"',
        "",
        *declared,
        *(["extern const uint8_t tcopt_image[];"] if embedded else []),
        "HIDDEN int32_t tcopt_stop = 0;",
        "static tcopt_state state = {&tcopt_stop, 0, 0};",
        *_tensors("input", inputs, inputs, numbers),
        *_tensors("output", outputs, inputs, numbers),
        *_array(
            "tcopt_size sizes",
            (
                f"{{{text(s.name)}, {s.low}, {s.high}, {s.multiple}, {int(n >= len(first.sizes))}}}"
                for n, s in enumerate(symbols)
            ),
        ),
        *_array("int32_t is_checked", (str(int(s in first.checked_sizes)) for s in first.defined)),
        *_equations(solved),
        *_array(
            "tcopt_check checks",
            (f"{{{text(spec.name)}, {bytes_of(spec)}}}" for spec in first.checks),
        ),
        *_levels(programs, bits, image),
        "",
        "static const tcopt_descriptor descriptor = {",
        f"  {FORMAT}, {text(name)}, {text(tcopt.__name__)}, {text(tcopt.__version__)},",
        f"  {len(inputs)}, {len(outputs)}, {len(first.keys)}, {len(first.checks)},",
        f"  {len(solved)}, {len(programs)},",
        f"  {len(first.sizes)}, {len(first.defined)},",
        "  inputs, outputs, sizes, is_checked, equations, checks, levels,",
        f"  {'tcopt_image' if embedded else 'NULL'}, {image.bytes}u,",
        f"  {_bytes(image.digest)}, &state,",
        "};",
        "",
        f"TCOPT_API const tcopt_descriptor *{symbol_of(name)}(void);",
        f"const tcopt_descriptor *{symbol_of(name)}(void) {{ return &descriptor; }}",
    ]
    return "\n".join(lines) + "\n"


def _tensors(
    role: str, specs: Sequence[TensorSpec], inputs: Sequence[TensorSpec], numbers: dict[str, int]
) -> list[str]:
    """Return the arrays `inputs` or `outputs`, and the shapes in them."""
    names = [spec.name for spec in inputs]
    lines: list[str] = []
    entries: list[str] = []
    for number, spec in enumerate(specs):
        shape: list[str] = []
        for axis, extent in enumerate(spec.shape):
            if not isinstance(extent, Size):
                shape.append(f"{{{extent}, {extent}, NULL, NULL}}")
                continue
            low, high = bounds_of(extent)
            code = f"{role}{number}_{axis}"
            lines += _array(f"int64_t {code}", map(str, formula(extent.value, numbers)))
            shape.append(f"{{{low}, {high}, {text(str(extent))}, {code}}}")
        lines += _array(f"tcopt_extent {role}{number}", shape)
        source = names.index(spec.in_place_of) if spec.in_place_of else -1
        entries.append(
            f"{{{text(spec.name)}, (tcopt_dtype){dtype_number(spec)}, {spec.dtype.itemsize}, "
            f"{len(spec.shape)}, {role}{number}, {source}}}"
        )
    return [*lines, *_array(f"tcopt_tensor {role}s", entries)]


def dtype_number(spec: TensorSpec) -> int:
    """Return the number of a tensor's element type.

    Raises:
        UnsupportedError: C has no such type.
    """
    if spec.dtype.name not in _TYPES:
        raise UnsupportedError(f'"{spec.name}" has elements of type {spec.dtype}, which C lacks')
    return _TYPES[spec.dtype.name]


def _equations(solved: Sequence[Equation]) -> list[str]:
    lines: list[str] = []
    entries: list[str] = []
    for number, each in enumerate(solved):
        lines += _array(f"int64_t factor{number}", map(str, each.factor))
        lines += _array(f"int64_t rest{number}", map(str, each.rest))
        place = f"{each.input}, {each.axis}, {each.size}"
        entries.append(f"{{{place}, factor{number}, rest{number}}}")
    return [*lines, *_array("tcopt_equation equations", entries)]


def _levels(programs: Sequence[Program], bits: Sequence[list[Bit]], image: Image) -> list[str]:
    lines: list[str] = []
    entries: list[str] = []
    for number, program in enumerate(programs):
        lines += _array(
            f"tcopt_feature level{number}",
            (
                f"{{{text(b.name)}, {b.leaf}u, {b.subleaf}, {b.part}, {b.bit}}}"
                for b in bits[number]
            ),
        )
        section = image.sections[number]
        entries.append(
            f"{{{text(program.target.cpu)}, level{number}, {len(bits[number])}, "
            f"level{number}_main, {section.offset}u, {section.bytes}u, {program.workspace_bytes}u, "
            f"{_bytes(section.digest)}}}"
        )
    return [*lines, *_array("tcopt_level levels", entries)]


def _array(declaration: str, entries: Iterable[str]) -> list[str]:
    """Return a constant array, which ends with an additional zero entry: C has no empty arrays."""
    zero = "0" if declaration.startswith("int") else "{0}"
    rows = (f"  {entry}," for entry in (*entries, zero))
    return [f"static const {declaration}[] = {{", *rows, "};"]


def _bytes(data: bytes) -> str:
    return f"{{{', '.join(map(str, data))}}}"


def text(value: str) -> str:
    """Return a C string literal of a text in UTF-8."""
    data = value.encode("utf-8", "surrogatepass")
    shown = (
        chr(b) if ord(" ") <= b < 0x7F and chr(b) not in '"\\?' else f"\\{b:03o}" for b in data
    )
    return f'"{"".join(shown)}"'
