"""Text of extents in IR: parsing returns the extent that was printed."""

import io

import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.printer import Printer

from tcopt.dialects.size import extent_text, parse_extent, print_extent
from tcopt.support.arithmetic.sizes import maximum, minimum, named_size, round_up

n, m = named_size("n", 0, 64), named_size("m.0", 8, 64, 8)
WORDS = [named_size(word, 1, 9) for word in ("mod", "min", "floordiv", "größe", "x.1", "_")]

EXTENTS = [
    7,
    n,
    m,
    -n + 3,
    2 * n * m - n,
    (n + 1) // 2 * m // 16,
    n % 4 - 2,
    round_up(n, 8) - n,
    minimum(n // 3, m, 5) % 2,
    maximum(n - m, 0),
    *WORDS,
    minimum(*WORDS) * WORDS[0] % 5 // 2,
]


@pytest.mark.parametrize("extent", EXTENTS, ids=extent_text)
def test_round_trip(extent):
    file = io.StringIO()
    print_extent(Printer(file), extent)
    assert parse_extent(Parser(Context(), file.getvalue())) == extent
