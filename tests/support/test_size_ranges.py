"""Ranges of sizes as users write them."""

import numpy as np
import pytest

from tcopt.support.arithmetic.size_ranges import SizeRange, given_size
from tcopt.support.arithmetic.sizes import bounds_of, named_size
from tcopt.support.errors import InputError


@pytest.mark.parametrize(
    "given, wanted",
    [
        (7, 7),
        (np.int64(7), 7),
        ("7", 7),
        ("0..0", 0),
        ("1..32", SizeRange(1, 32)),
        ("16..512:16", SizeRange(16, 512, 16)),
        ("1..512?", SizeRange(1, 512, falls_back=True)),
        ("8..64:8?", SizeRange(8, 64, 8, falls_back=True)),
        ((1, 512), SizeRange(1, 512)),
        ([0, np.int32(4)], SizeRange(0, 4)),
        ((16, 512, 16), SizeRange(16, 512, 16)),
        (range(1, 513), SizeRange(1, 512)),
        (range(16, 520, 16), SizeRange(16, 512, 16)),
        (SizeRange(2, 3), SizeRange(2, 3)),
        (SizeRange(3, 3), 3),
        (" past + length ", "past + length"),
    ],
)
def test_forms(given, wanted):
    found = given_size("n", given)
    assert found == wanted
    assert given_size("n", str(found)) == found


@pytest.mark.parametrize(
    "given",
    [
        *(
            "5..2",
            "-1..4",
            "-2",
            "16..500:16",
            "8..64:0",
            "1..",
            "..4",
            "1-4",
            "n + 1",
            "",
            "1..4??",
        ),
        *("7?", "7:7", "1..2..3", (4,), (1, 2, 3, 4), (1, 2.5), (4, 2), (-1, 2), (2, 9, 4)),
        *(
            2.5,
            True,
            (True, 4),
            None,
            range(0),
            range(1, 8, 2),
            range(8, 1, -1),
            "1" * 30,
            [1, "2"],
        ),
        *(SizeRange(4, 2), SizeRange(1, 8, 8), -3),
    ],
)
def test_errors_name_the_size(given):
    with pytest.raises(InputError, match="'n'"):
        given_size("n", given)


def test_sizes_of_ranges():
    assert SizeRange(16, 512, 16).size("n") == named_size("n", 16, 512, 16)
    assert bounds_of(SizeRange(1, 9).size("n")) == (1, 9)
    assert [n for n in range(40) if n in SizeRange(8, 24, 8)] == [8, 16, 24]
