"""simd: operations across lanes that CPUs have and MLIR's vector dialect lacks.

`simd.dot` adds products of short groups of narrow elements to wider ones, like AVX-512 BF16's
`vdpbf16ps`, VNNI's `vpdpbusd` and Arm's `bfdot`, `sdot` and `usdot`. The backend selects the
instruction by element type and target features, and expands the products if there is none, so
kernels with this op run on every CPU. `simd.pack_bits` packs the bits of neighbouring integers
into words, like masks of comparisons. `simd.table_sum` adds up entries of small tables, which
`vpermb`, `vpshufb` and `tbl` look up for all bytes of a register. `simd.code_dot` multiplies codes
of few bits, several in each byte of a word, by bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    FixedBitwidthType,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    VectorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

Number: TypeAlias = IntegerAttr[I64]


@irdl_op_definition
class DotOp(IRDLOperation):
    """Accumulates the dot product of one group of `lhs` and `rhs` into each element of `acc`.

    ```mlir
    %r = simd.dot %acc, %a, %b : vector<16x2xbf16> into vector<16xf32>
    %r = simd.dot %acc, %a, %b {lhs_unsigned} : vector<4xi8> into i32
    ```
    The last dimension of the factors is the group; the leading dimensions are the shape of `acc`,
    which is a scalar if there are none. `r[l] = acc[l] + sum(a[l, p] * b[l, p])`:

    - integers are exact and wrap around; elements of an operand marked `_unsigned` are unsigned;
    - float products are added in the precision of `acc`, with the order and intermediate rounding
      of the hardware: fused multiply-adds in sequence, last of the group first, rounding to
      nearest even (x86), or all products first, rounding to odd (Arm). Subnormals may be flushed
      to zero.
    """

    name = "simd.dot"

    _FACTOR: ClassVar = VarConstraint("FACTOR", BaseAttr(VectorType))
    _TOTAL: ClassVar = VarConstraint("TOTAL", AnyAttr())

    acc = operand_def(_TOTAL)
    lhs = operand_def(_FACTOR)
    rhs = operand_def(_FACTOR)
    lhs_unsigned = opt_prop_def(UnitAttr)
    rhs_unsigned = opt_prop_def(UnitAttr)
    result = result_def(_TOTAL)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "$acc `,` $lhs `,` $rhs attr-dict `:` type($lhs) `into` type($acc)"

    def __init__(
        self,
        acc: SSAValue | Operation,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        *,
        lhs_unsigned: bool = False,
        rhs_unsigned: bool = False,
    ):
        acc = SSAValue.get(acc)
        super().__init__(
            operands=[acc, lhs, rhs],
            result_types=[acc.type],
            properties={
                "lhs_unsigned": UnitAttr() if lhs_unsigned else None,
                "rhs_unsigned": UnitAttr() if rhs_unsigned else None,
            },
        )

    @property
    def group(self) -> int:
        """The number of products added to one element."""
        assert isa(self.lhs.type, VectorType)
        return self.lhs.type.get_shape()[-1]

    def verify_(self) -> None:
        assert isa(self.lhs.type, VectorType)
        shape, wide = _shape_and_element(self.acc.type)
        narrow = self.lhs.type.get_element_type()
        if self.lhs.type.get_shape()[:-1] != shape:
            raise VerifyException(f"groups of {self.lhs.type} do not fit {self.acc.type}")
        widths = [e.bitwidth for e in (narrow, wide) if isinstance(e, FixedBitwidthType)]
        both_floats = isinstance(narrow, AnyFloat) and isinstance(wide, AnyFloat)
        both_integers = isinstance(narrow, IntegerType) and isinstance(wide, IntegerType)
        if (not both_floats and not both_integers) or widths[0] >= widths[1]:
            raise VerifyException(f"products of {narrow} cannot be accumulated in {wide}")
        if both_floats and (self.lhs_unsigned is not None or self.rhs_unsigned is not None):
            raise VerifyException("only integers are unsigned")


@irdl_op_definition
class PackBitsOp(IRDLOperation):
    """Packs bits of integers into words, one word for each bit, and adds them to `acc`.

    ```mlir
    %r = simd.pack_bits %acc, %x : vector<2x16xi8> into vector<2xi32>
    %r = simd.pack_bits %acc, %x : vector<16xi8> into i32
    ```
    Word i collects bit i of each value: `r[i] = acc[i] + sum(((x[n] >> i) & 1) << n)`, where n
    counts the values in row-major order. A single word collects the lowest bits.
    """

    name = "simd.pack_bits"

    _TOTAL: ClassVar = VarConstraint("TOTAL", AnyAttr())

    acc = operand_def(_TOTAL)
    x = operand_def(BaseAttr(VectorType))
    result = result_def(_TOTAL)

    traits = traits_def(Pure())

    assembly_format = "$acc `,` $x attr-dict `:` type($x) `into` type($acc)"

    def __init__(self, acc: SSAValue | Operation, x: SSAValue | Operation):
        acc = SSAValue.get(acc)
        super().__init__(operands=[acc, x], result_types=[acc.type])

    @property
    def bits(self) -> int:
        """The number of bits taken from each value."""
        return _shape_and_element(self.acc.type)[0][0] if isa(self.acc.type, VectorType) else 1

    @property
    def count(self) -> int:
        """The number of values."""
        assert isa(self.x.type, VectorType)
        return self.x.type.element_count()

    def verify_(self) -> None:
        assert isa(self.x.type, VectorType)
        shape, word = _shape_and_element(self.acc.type)
        narrow = self.x.type.get_element_type()
        if not isinstance(narrow, IntegerType) or not isinstance(word, IntegerType):
            raise VerifyException(f"bits of {narrow} cannot be packed into {word}")
        if len(shape) > 1 or self.count > word.bitwidth:
            raise VerifyException(f"{self.acc.type} has no room for {self.count} numbers")
        if self.bits > narrow.bitwidth:
            raise VerifyException(f"{narrow} has no {self.bits} bits")


LOW_BITS = 7
"""Bits of an entry in its first table; the sum of two such parts fits in a byte."""


def part_bits(bits: int) -> tuple[int, ...]:
    """Return the number of bits that each table of an entry holds, low bits first."""
    return (bits,) if bits <= LOW_BITS else (LOW_BITS, bits - LOW_BITS)


@irdl_op_definition
class TableSumOp(IRDLOperation):
    """Adds to `acc` one entry of each table, selected by an index.

    ```mlir
    %r = simd.table_sum %acc tables(%t, %u) at(%i, %j) {planes = 1, bits = 5}
           : vector<64xi8>, vector<64xi8> at vector<16xi8>, vector<16xi8> into vector<16xi32>
    ```
    The tables are shared by all lanes. There are `planes` planes of indices, each with one index
    per table, concatenated; `r[l] = acc[l] + sum(2**j * table[p][index[j][p][l] mod entries])`,
    where the last plane has a negative weight if `signed`. Only the low `bits` bits of a table's
    bytes are used. Entries of more than 7 bits take two consecutive tables: one with the low 7
    bits, and one with the remaining bits.
    """

    name = "simd.table_sum"

    _TOTAL: ClassVar = VarConstraint("TOTAL", AnyAttr())

    acc = operand_def(_TOTAL)
    tables = var_operand_def(VectorType)
    indices = var_operand_def()
    planes = prop_def(Number)
    bits = prop_def(Number)
    signed = opt_prop_def(UnitAttr)
    result = result_def(_TOTAL)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())

    assembly_format = (
        "$acc `tables` `(` $tables `)` `at` `(` $indices `)` attr-dict"
        " `:` type($tables) `at` type($indices) `into` type($acc)"
    )

    def __init__(
        self,
        acc: SSAValue | Operation,
        tables: Sequence[SSAValue],
        indices: Sequence[SSAValue],
        *,
        planes: int,
        bits: int,
        signed: bool = False,
    ):
        acc = SSAValue.get(acc)
        super().__init__(
            operands=[acc, tables, indices],
            result_types=[acc.type],
            properties={
                "planes": IntegerAttr(planes, i64),
                "bits": IntegerAttr(bits, i64),
                "signed": UnitAttr() if signed else None,
            },
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of bits used of each table of an entry."""
        return part_bits(self.bits.value.data)

    @property
    def groups(self) -> int:
        """The number of entries added up for each plane."""
        return len(self.tables) // len(self.widths)

    @property
    def entries(self) -> int:
        """The number of entries of a table."""
        type_ = self.tables[0].type
        assert isa(type_, VectorType)
        return type_.get_shape()[0]

    @property
    def weights(self) -> tuple[int, ...]:
        """The weight of each plane."""
        planes = self.planes.value.data
        last = -1 if self.signed is not None else 1
        return (*(1 << j for j in range(planes - 1)), last << (planes - 1))

    def serves_all_lanes(self, position: int) -> bool:
        """Whether an operand is shared by all lanes."""
        return 0 < position <= len(self.tables)

    def verify_(self) -> None:
        planes, bits = self.planes.value.data, self.bits.value.data
        shape, wide = _shape_and_element(self.acc.type)
        if planes < 1 or not 0 < bits <= LOW_BITS + 8:
            raise VerifyException(f"{planes} planes, and entries of {bits} bits")
        if len(self.tables) % len(self.widths) or not self.tables:
            raise VerifyException(f"{len(self.tables)} tables of entries of {bits} bits")
        if len(self.indices) != planes * self.groups:
            text = f"{len(self.indices)} indices for {self.groups} entries in {planes} planes"
            raise VerifyException(text)
        if len(set(self.tables.types)) > 1 or self.entries & (self.entries - 1):
            raise VerifyException("tables should be of one type, and a power of two long")
        element = _shape_and_element(self.tables[0].type)[1]
        if element != i8 or any(_shape_and_element(t) != (shape, i8) for t in self.indices.types):
            raise VerifyException(f"tables and indices should be i8, for each lane of {shape}")
        if not isinstance(wide, IntegerType) or wide.bitwidth < 32:
            raise VerifyException(f"entries cannot be accumulated in {wide}")


@irdl_op_definition
class CodeDotOp(IRDLOperation):
    """Adds to `acc` the products of the codes in a word with signed bytes.

    ```mlir
    %r = simd.code_dot %acc, %word by(%x, %y) {bits = 4}
           : vector<4xi8>, vector<4xi8> into vector<8xi32>
    ```
    Each byte of a word holds `8 / bits` unsigned codes, lowest bits first. The bytes are shared by
    all lanes, with one operand for each code of a byte:
    `r[l] = acc[l] + sum(((word[l] >> (8 * j + bits * h)) mod 2**bits) * factors[h][j])`. Sums wrap
    around.
    """

    name = "simd.code_dot"

    _TOTAL: ClassVar = VarConstraint("TOTAL", AnyAttr())

    acc = operand_def(_TOTAL)
    word = operand_def(_TOTAL)
    factors = var_operand_def(VectorType)
    bits = prop_def(Number)
    result = result_def(_TOTAL)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = (
        "$acc `,` $word `by` `(` $factors `)` attr-dict `:` type($factors) `into` type($acc)"
    )

    def __init__(
        self, acc: SSAValue | Operation, word: SSAValue, factors: Sequence[SSAValue], *, bits: int
    ):
        acc = SSAValue.get(acc)
        super().__init__(
            operands=[acc, word, factors],
            result_types=[acc.type],
            properties={"bits": IntegerAttr(bits, i64)},
        )

    def serves_all_lanes(self, position: int) -> bool:
        """Whether an operand is shared by all lanes."""
        return position >= 2

    def verify_(self) -> None:
        bits = self.bits.value.data
        if bits not in (2, 4, 8) or len(self.factors) != 8 // bits:
            raise VerifyException(f"{len(self.factors)} factors for codes of {bits} bits")
        if any(_shape_and_element(each) != ((4,), i8) for each in self.factors.types):
            raise VerifyException("factors should be vector<4xi8>")
        if _shape_and_element(self.acc.type)[1] != i32:
            raise VerifyException(f"words and sums should be i32, not {self.acc.type}")


def _shape_and_element(type: Attribute) -> tuple[tuple[int, ...], Attribute]:
    if isa(type, VectorType):
        return type.get_shape(), type.get_element_type()
    return (), type


DIALECT = Dialect("simd", [DotOp, PackBitsOp, TableSumOp, CodeDotOp], [])
