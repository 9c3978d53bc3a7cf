"""Converting the case of a string in pieces gives the same result as converting all of it."""

from __future__ import annotations

import numpy as np
import pytest

from tcopt.support.data.strings import array_of_texts
from tcopt.support.host.host_functions import case
from tcopt.support.host.host_functions.registry import Form, find_host_function

TEXTS = [
    "Plain ASCII words, and Straße, and İstanbul",
    "ΟΔΥΣΣΕΥΣ ΣΓΣ, ΣΓΣ.ΣΓ' ΣΣ Σ ΓΣ'Γ",
    "ΓΣ" * 20 + "'" * 9 + "Σ",
    "a\u0301Σ\u0301\u0301\u0301Γ ﬁﬂ ŉ",
]


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
@pytest.mark.parametrize("setting", ["lower", "upper"])
def test_pieces_are_converted_as_the_whole(
    piece: int, setting: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(case, "_PIECE", piece)
    operand = array_of_texts(TEXTS, (len(TEXTS),))
    form = Form(operand.shape, np.dtype(np.int64))
    (found,) = find_host_function("string_case").run({"case": setting}, [operand], [form])
    assert found.tolist() == [getattr(text, setting)() for text in TEXTS]
