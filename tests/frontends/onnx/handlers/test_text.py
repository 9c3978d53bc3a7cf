"""n-grams of words, against onnxruntime."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tcopt
from models.checks import check_node, node_model, run_imported, run_reference

POOL = {
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 6, 7, 3, 3, 5, 2],
    "ngram_counts": [0, 4, 10],
    "ngram_indexes": [0, 1, 2, 3, 6, 5, 4, 7],
}


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("least", "most", "skips"), [(1, 1, 3), (2, 2, 0), (1, 3, 2)])
def test_ngrams(mode: str, least: int, most: int, skips: int, rng: np.random.Generator):
    """N-grams of a matrix and of a single row, with weights for each column."""
    options = {"mode": mode, "min_gram_length": least, "max_gram_length": most}
    weights = [float(w) for w in rng.uniform(1, 2, 8)]
    for shape in ((3, 12), (12,)):
        x = rng.integers(2, 8, shape)
        check_node("TfIdfVectorizer", x, max_skip_count=skips, weights=weights, **options, **POOL)


@pytest.mark.parametrize("kind", ["int32", "int64", "string"])
def test_vocabulary(kind: str, rng: np.random.Generator):
    """N-grams of up to four words, some of which are prefixes of others, with skips."""
    vocabulary = rng.permutation(40)
    grams = [np.unique(rng.integers(0, 40, (30, size)), axis=0) for size in range(1, 5)]
    flat = vocabulary[np.concatenate([each.reshape(-1) for each in grams])]
    starts = np.cumsum([0, *(each.size for each in grams[:-1])])
    columns = rng.permutation(sum(map(len, grams)))
    x = rng.integers(0, 44, (3, 60))
    # Make a row that contains n-grams of the pool.
    x[1, : grams[3].size : 3] = flat[starts[3] :][:20]
    x = x.astype(kind if kind != "string" else "int64")
    pool: dict[str, list[int] | list[str]] = {"pool_int64s": flat.tolist()}
    if kind == "string":
        pool = {"pool_strings": [f"w{word}" for word in flat]}
        x = np.array([[f"w{word}" for word in row] for row in x], object)
    model = node_model(
        "TfIdfVectorizer",
        [x],
        mode="TF",
        min_gram_length=1,
        max_gram_length=3,
        max_skip_count=4,
        ngram_counts=starts.tolist(),
        ngram_indexes=columns.tolist(),
        **pool,
    )
    run = tcopt.compile(model).run if kind == "string" else partial(run_imported, model)
    np.testing.assert_array_equal(run({"x0": x})[0], run_reference(model, {"x0": x})[0])


def test_compiled(rng: np.random.Generator):
    """Compiled code counts like the evaluation; skips beyond the maximum count like the last."""
    x = rng.integers(2, 8, (4, 20))
    options = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 3}
    model = node_model("TfIdfVectorizer", [x], max_skip_count=2**31 - 1, **options, **POOL)
    few = node_model("TfIdfVectorizer", [x], max_skip_count=20, **options, **POOL)
    (result,) = tcopt.compile(model).run({"x0": x})
    np.testing.assert_array_equal(result, run_reference(few, {"x0": x})[0])


def test_words_beyond_the_data_type():
    """A word of the pool outside the range of 32-bit data never matches."""
    x = np.array([[2, 3, 2, 5]], np.int32)
    model = node_model(
        "TfIdfVectorizer",
        [x],
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=[0, 1],
        pool_int64s=[2**32 + 2, 3],
    )
    (result,) = run_imported(model, {"x0": x})
    assert result.tolist() == [[0, 1]]
