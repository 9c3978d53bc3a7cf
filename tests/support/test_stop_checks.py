"""Host functions end soon after a stop request: they check for it, whatever they compute."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import onnx.parser
import pytest

import tcopt
from tcopt.runtime.stopping import Control
from tcopt.support.data.strings import StringTable, array_of_texts
from tcopt.support.errors import CancelledError
from tcopt.support.host.host_functions.registry import Form, find_host_function
from tcopt.support.processes.stop_checks import StopChecks, apart, check_stop, in_steps

MANY = 20_000
WORDS = [f"{n} word" for n in range(MANY)]
LONG = [*["x"] * 3, "a " * 300_000]

CASES: dict[str, tuple[str, dict[str, Any], list[str] | np.ndarray]] = {
    "case": ("string_case", {"case": "lower"}, WORDS),
    "case of a long string": ("string_case", {"case": "lower"}, LONG),
    "upper case of a long string": ("string_case", {"case": "upper"}, LONG),
    "match": ("regex_full_match", {"pattern": "a+"}, WORDS),
    "tokens": (
        "token_counts",
        {"expression": "", "separators": [" "], "shortest": 1, "mark": False},
        WORDS,
    ),
    "ranks": ("string_ranks", {}, WORDS),
    "counts": ("string_split_counts", {"delimiter": "", "maxsplit": -1}, WORDS),
    "words of a long string": ("string_split_counts", {"delimiter": "", "maxsplit": -1}, LONG),
    "parts of a long string": ("string_split_counts", {"delimiter": " ", "maxsplit": -1}, LONG),
    "numbers": ("string_to_number", {"type": "float32"}, [str(n) for n in range(MANY)]),
    "integers": ("string_to_number", {"type": "int32"}, [str(n) for n in range(MANY)]),
    "spellings": ("number_to_string", {"type": "float32"}, np.zeros(MANY, np.float32)),
    "digits": ("number_to_string", {"type": "int64"}, np.zeros(MANY, np.int64)),
}


class Stop:
    """A check that ends the run on the n-th call."""

    def __init__(self, calls: int):
        self.left = calls

    def __call__(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise CancelledError("stopped")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("calls", [1, 2])
def test_a_host_function_stops(name: str, calls: int):
    function, settings, data = CASES[name]
    operand = data if isinstance(data, np.ndarray) else array_of_texts(data, (len(data),))
    host = find_host_function(function)
    form = Form(operand.shape, np.dtype(settings.get("type", np.int64)))
    with StopChecks(Stop(calls)), pytest.raises(CancelledError):
        host.run(settings, [operand], [form])


def test_the_table_of_strings_stops():
    many = 4 * MANY
    texts = array_of_texts(WORDS * 4, (many,))
    table = StringTable()
    places = table.encode(texts)
    for compute in (lambda: table.encode(texts), lambda: table.decode(places)):
        with StopChecks(Stop(2)), pytest.raises(CancelledError):
            compute()


def test_long_strings_are_split_as_short_ones_are():
    host = find_host_function("string_split")
    for text in (" a  b\u2003c d ", "a--b----c", "", "---"):
        for delimiter in ("", "--"):
            for most in (-1, 0, 1, 2):
                settings = {"delimiter": delimiter, "maxsplit": most}
                long = text and text + " " * (1 << 18) + "z"
                parts = long.split(delimiter or None, most) if long else []
                operand, shape = array_of_texts([long], (1,)), (1, len(parts))
                (counts,) = find_host_function("string_split_counts").run(settings, [operand], [])
                (found,) = host.run(settings, [operand], [Form(shape, np.dtype(np.int64))])
                assert found.tolist() == [parts] and counts.tolist() == [len(parts)]


def test_an_abandoned_call_does_not_hold_the_run():
    go_on = threading.Event()
    with StopChecks(Stop(2)), pytest.raises(CancelledError):
        apart(go_on.wait)
    go_on.set()
    assert apart(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        apart(lambda: 1 // 0)


def test_without_a_run_nothing_stops():
    check_stop()
    assert list(in_steps(range(MANY))) == list(range(MANY))


def test_a_run_ends_wherever_it_checks(monkeypatch: pytest.MonkeyPatch):
    text = "g (string[20000] x) => (string[20000] y) { y = StringConcat(x, x) }"
    opsets = '<ir_version: 10, opset_import: ["" : 21]>'
    model = tcopt.compile(onnx.parser.parse_model(opsets + text))
    feeds = {"x": array_of_texts(WORDS, (MANY,))}
    checks = Stop(1 << 30)
    monkeypatch.setattr(Control, "check", lambda self: checks())
    (whole,) = model.run(feeds, timeout=1000)
    assert whole.tolist() == [text * 2 for text in WORDS]
    count = (1 << 30) - checks.left
    assert count > 6  # Encoding, the host function and decoding check in addition to the run.
    for number in range(1, count + 1):
        checks.left = number
        with pytest.raises(CancelledError):
            model.run(feeds, timeout=1000)
    checks.left = 1 << 30
    assert model.run(feeds, timeout=1000)[0].tolist() == whole.tolist()
