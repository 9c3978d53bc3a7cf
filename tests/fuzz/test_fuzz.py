"""Invalid texts are rejected with a message, and never hang.

`make fuzz` runs thousands of mutants; a sample runs here.
"""

from __future__ import annotations

import pytest

from fuzz.mutants import mutant
from fuzz.reduce import reduce
from fuzz.text_checks import check
from tcopt.support.ir import verify

_SECONDS = 60.0


@pytest.mark.nightly(every=6)
@pytest.mark.parametrize("part", range(6))
def test_mutants(part: int) -> None:
    for number in range(60 * part, 60 * (part + 1)):
        finding = check(mutant(11, number), _SECONDS)
        assert finding is None, f"{mutant(11, number)}\n{finding.signature}\n{finding.detail}"


@pytest.mark.parametrize(
    "text",
    [
        '"' + "x" * 60,
        'builtin.module attributes {a = "' + "x" * 4000 + "} {}",
        '@"' + "\\41" * 60 + "\\",
        "builtin.module {" * 200,
        "builtin.module attributes {a = " + "[" * 3000,
        "builtin.module attributes {a = " + "9" * 9000 + "} {}",
        "builtin.module attributes {a = dense<0.0> : tensor<100000x100000x100000xf32>} {}",
        "builtin.module attributes {a = 1 : i18446744073709551616} {}",
        "builtin.module attributes {a = ²} {}",
        'builtin.module attributes {a = "\\ff"} {}',
        "builtin.module attributes {a = array<i320: 1>} {}",
        "sched.sequence @s for @f { sched.permute_layout %a to [18446744073709551616] }",
    ],
)
def test_texts_that_ask_for_too_much_are_refused_at_once(text: str) -> None:
    assert check(text, 10.0) is None


FOUND = {
    "a step of zero": """func.func private @f(%a: memref<8xf32>, %v: f32) {
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      scf.for %k = %c0 to %c8 step %c0 {
        memref.store %v, %a[%k] : memref<8xf32>
      }
      func.return
    }""",
    "a store of a matrix whose rows lie apart": """
    loop.func @f(%x: memref<4x16x2xf32>, %y: memref<2x16x4xf32>) {
      loop.for %i = 0 to 4 {
        %a = loop.load %x[%i, 0, 0] lanes [0, 1, 0] [0, 0, 1] : memref<4x16x2xf32>, vector<16x2xf32>
        loop.store %a, %y[0, 0, %i] lanes [0, 1, 0] [1, 0, 0]
          : memref<2x16x4xf32>, vector<16x2xf32>
      }
    }""",
    "a function of several blocks": """func.func @f() {
      cf.br ^next
    ^next:
      func.return
    }""",
    "a product of nothing": """
    te.func @f(%x: tensor<0x8xf32>, %w: tensor<8x16xf32>) -> tensor<0x16xf32> {
      %y = te.compute "y" [%i = 0, %j = 16] reduce [%k = 8] sum : tensor<0x16xf32> {
        %a = te.read %x[%i, %k] : tensor<0x8xf32>
        %b = te.read %w[%k, %j] : tensor<8x16xf32>
        %c = arith.mulf %a, %b : f32
        te.yield %c : f32
      }
      te.return %y : tensor<0x16xf32>
    }""",
}


@pytest.mark.parametrize("text", FOUND.values(), ids=list(FOUND))
def test_what_was_found_stays_mended(text: str) -> None:
    finding = check(text, _SECONDS)
    assert finding is None, f"{finding.signature}\n{finding.detail}"


def test_what_is_no_message_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(root: object) -> None:
        raise KeyError("extent")

    monkeypatch.setattr(verify, "verify_dominance", fail)
    finding = check("builtin.module {}", _SECONDS)
    assert finding is not None
    assert finding.signature.startswith("verify: KeyError in")


def test_what_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(root: object) -> None:
        while True:
            pass

    monkeypatch.setattr(verify, "verify_dominance", wait)
    finding = check("builtin.module {}", 0.5)
    assert finding is not None
    assert finding.signature.startswith("verify: hang in")


def test_a_failing_text_is_made_smaller() -> None:
    text = "a b c\nd e bad f\ng h i\n"
    assert reduce(text, lambda part: "bad" in part, 10.0).strip() == "bad"
