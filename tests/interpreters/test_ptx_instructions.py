"""Instructions, scopes and functions of PTX that the library of a device's functions is made of."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tcopt.interpreters.ptx.faults import PtxFaultError
from tcopt.interpreters.ptx.launch import PtxProgram
from tcopt.support.errors import BackendError, ParsingError, UnsupportedError

HEAD = """.version 7.8
.target sm_80
.address_size 64
.global .align 8 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0};
"""
TWICE = """.func (.param .b32 func_retval0) twice(.param .b32 twice_param_0,
.param .b32 twice_param_1)
{
.reg .pred %p<2>; .reg .b32 %r<5>;
.local .align 4 .b8 own[8];
.reg .b64 %rd<3>;
ld.param.b32 %r1, [twice_param_0];
ld.param.b32 %r2, [twice_param_1];
mov.b64 %rd1, own;
cvta.local.u64 %rd2, %rd1;
st.b32 [%rd2+4], %r1;
setp.eq.b32 %p1, %r2, 0;
@%p1 bra $L;
ld.local.b32 %r3, [%rd1+4];
add.s32 %r1, %r1, %r3;
$L:
st.param.b32 [func_retval0], %r1;
ret;
}
"""
SUM_OF_CALLS = """{ .param .b32 p; .param .b32 q; .param .b32 r;
st.param.b32 [p], 20; st.param.b32 [q+0], 1; call.uni (r), twice, (p, q); ld.param.b32 %r1, [r]; }
{ .param .b32 p; .param .b32 q; .param .b32 r;
st.param.b32 [p], 2; st.param.b32 [q], 0; call.uni (r), twice, (p, q); ld.param.b32 %r2, [r]; }
add.s32 %r3, %r1, %r2; cvt.s64.s32 %rd9, %r3;"""


def _run(body: str, before: str = "") -> int:
    """The value of `%rd9` at the end of a body that one thread runs."""
    text = f"""{HEAD}{before}.visible .entry k(.param .u64 .ptr .global .align 8 k_param_0,
.param .u64 .ptr .global .align 8 k_param_1)
{{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<10>;
{body}
ld.param.b64 %rd8, [k_param_1];
st.global.b64 [%rd8], %rd9;
ret;
}}
"""
    data = np.array([7, 0], np.int64)
    place = data.ctypes.data
    one = (1, 1, 1)
    PtxProgram(text).launch("k", one, one, [place, place + 8], [(place, place + 16)])
    return int(data[1])


def _double(value: float) -> str:
    return f"0d{struct.pack('>d', value).hex()}"


def _single(value: float) -> str:
    return f"0f{struct.pack('>f', value).hex()}"


def _bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


INTEGERS = {
    "mov.b64 %rd1, 4294967298; { .reg .b32 t; mov.b64 {%r1, t}, %rd1; cvt.u64.u32 %rd9, t; }": 1,
    "mov.b32 %r1, 5; { .reg .b32 %r<3>; mov.b32 %r1, 9; } cvt.u64.u32 %rd9, %r1;": 5,
    "{ .reg .b32 t; mov.b32 t, 3; { .reg .b32 t; mov.b32 t, 4; } cvt.u64.u32 %rd9, t; }": 3,
    "mov.b64 %rd1, k_param_1; mov.b64 %rd2, k_param_0; setp.eq.s32 %p1, 0, 0;"
    " selp.b64 %rd3, %rd2, %rd1, %p1; ld.param.b64 %rd4, [%rd3]; ld.global.b64 %rd9, [%rd4];": 7,
    "mov.b64 %rd1, table; ld.global.b32 %r1, [%rd1+8]; ld.b32 %r2, [%rd1+4]; add.s32 %r1, %r1, %r2;"
    " cvt.u64.u32 %rd9, %r1;": 5,
    "mov.b32 %r1, -1; add.cc.u32 %r2, %r1, 2; addc.u32 %r3, 0, 0; mov.b64 %rd9, {%r2, %r3};": (
        (1 << 32) + 1
    ),
    "mov.b32 %r1, 1; sub.cc.u32 %r2, %r1, 2; subc.u32 %r3, 1, 0; mov.b64 %rd9, {%r2, %r3};": (
        0xFFFFFFFF
    ),
    "mov.b32 %r1, -1; mad.lo.cc.u32 %r2, %r1, 2, 3; madc.hi.u32 %r3, %r1, 2, 0;"
    " mov.b64 %rd9, {%r2, %r3};": 0xFFFFFFFF * 2 + 3,
}
FLOATS = {
    f"cvt.sat.f32.f32 %r1, {_single(-3)};": 0.0,
    f"cvt.sat.f32.f32 %r1, {_single(float('nan'))};": 0.0,
    f"add.sat.f32 %r1, {_single(0.75)}, {_single(0.5)};": 1.0,
    f"mul.ftz.f32 %r1, {_single(2.0**-100)}, {_single(-(2.0**-40))};": -0.0,
    f"add.ftz.f32 %r1, {_single(2.0**-127)}, {_single(0)};": 0.0,
    f"add.rp.f32 %r1, {_single(1)}, {_single(2.0**-60)};": 1 + 2.0**-23,
    f"add.rm.f32 %r1, {_single(1)}, {_single(-(2.0**-60))};": 1 - 2.0**-24,
    f"fma.rm.f32 %r1, {_single(3)}, {_single(5)}, {_single(-(2.0**-60))};": 15 - 2.0**-20,
    f"mul.rz.f32 %r1, {_single(-1 - 2.0**-23)}, {_single(1 + 2.0**-23)};": -1 - 2.0**-22,
    f"ex2.approx.ftz.f32 %r1, {_single(-3)};": 0.125,
    f"lg2.approx.f32 %r1, {_single(8)};": 3.0,
    f"rcp.approx.ftz.f64 %rd1, {_double(4)}; cvt.rn.f32.f64 %r1, %rd1;": 0.25,
    # An f32 between the two would be a tie, which goes to the even 1.
    f"{{ .reg .b16 h; cvt.rn.f16.f64 h, {_double(1 + 2.0**-11 + 2.0**-40)};"
    " cvt.f32.f16 %r1, h; }": 1 + 2.0**-10,
    f"{{ .reg .b16 h; cvt.rn.f16.f64 h, {_double(1e300)}; cvt.f32.f16 %r1, h; }}": float("inf"),
}


@pytest.mark.parametrize("body", INTEGERS)
def test_integers(body: str) -> None:
    assert _run(body) == INTEGERS[body]


@pytest.mark.parametrize("body", FLOATS)
def test_floats(body: str) -> None:
    assert _run(f"{body}\ncvt.u64.u32 %rd9, %r1;") == _bits(FLOATS[body])


def test_pairs() -> None:
    """1 and 2, 3 and -4 as halves: each half has results of its own."""
    body = "mov.b32 %r1, 0x40003c00; mov.b32 %r2, 0xc4004200; add.rn.f16x2 %r3, %r1, %r2;"
    body += " setp.lt.f16x2 %p1|%p2, %r1, %r2; selp.b32 %r4, 1, 0, %p1; selp.b32 %r5, 1, 0, %p2;"
    assert _run(f"{body} mov.b64 %rd9, {{%r3, %r4}};") == (1 << 32) + 0xC0004400
    assert _run(f"{body} cvt.u64.u32 %rd9, %r5;") == 0


def test_calls_are_inlined() -> None:
    """Each call has registers, labels and local memory of its own."""
    assert _run(SUM_OF_CALLS, TWICE) == 42


def test_calls_that_cannot_be_inlined() -> None:
    declared = ".func twice(.param .b32 a, .param .b32 b);\n"
    with pytest.raises(UnsupportedError, match=r"twice.*kernel k, line"):
        _run(SUM_OF_CALLS, declared)
    call = "call.uni (func_retval0), twice, (func_retval0, func_retval0);"
    body = TWICE.replace("ret;", f"{call} ret;")
    with pytest.raises(UnsupportedError, match="twice"):
        _run(SUM_OF_CALLS, body)


@pytest.mark.parametrize(("bytes", "is_inside"), [(8, True), (4, False)])
def test_an_access_wider_than_a_local_array(bytes: int, is_inside: bool) -> None:
    body = f""".local .align 8 .b8 own[{bytes}]; mov.b64 %rd1, own;
st.local.b64 [%rd1], 5; ld.local.b64 %rd9, [%rd1];"""
    if is_inside:
        assert _run(body) == 5
    else:
        with pytest.raises(PtxFaultError, match="kernel k"):
            _run(body)


def test_a_statement_without_an_end() -> None:
    with pytest.raises(ParsingError, match="has no end"):
        PtxProgram(f"{HEAD}.visible .entry k()\n{{\nret\n}}\n")


def test_failing_code_generation_names_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ("ptx.narrow", "declare half @ptx.narrow(double)")
    monkeypatch.setattr("tcopt.interpreters.ptx.ops.convert._NARROW", broken)
    with pytest.raises(BackendError, match=r"translated PTX of k\b"):
        _run("{ .reg .b16 h; cvt.rn.f16.f64 h, 0d3ff0000000000000; }")
