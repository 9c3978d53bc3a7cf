"""n-grams of numbers, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from models.checks import check_node, node_model
from tcopt.frontends.onnx import import_model

POOL = {
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 6, 7, 3, 3, 5, 2],
    "ngram_counts": [0, 4, 10],
    "ngram_indexes": [0, 1, 2, 3, 6, 5, 4, 7],
}


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("least", "most", "skips"), [(1, 1, 3), (2, 2, 0), (1, 3, 2)])
def test_ngrams(mode: str, least: int, most: int, skips: int, rng: np.random.Generator):
    """In rows and in one row; with weights for each column."""
    options = {"mode": mode, "min_gram_length": least, "max_gram_length": most}
    weights = [float(w) for w in rng.uniform(1, 2, 8)]
    for shape in ((3, 12), (12,)):
        x = rng.integers(2, 8, shape)
        check_node("TfIdfVectorizer", x, max_skip_count=skips, weights=weights, **options, **POOL)


def test_distances_are_bounded_by_the_length_of_rows(rng: np.random.Generator):
    options = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 3, **POOL}
    x = rng.integers(2, 8, (2, 7))
    models = (node_model("TfIdfVectorizer", [x], max_skip_count=n, **options) for n in (2**62, 6))
    far, near = (len(list(import_model(model).walk())) for model in models)
    assert far == near
