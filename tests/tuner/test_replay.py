"""Tables of measured choices, and searches replayed on them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from models.tuner_models import save_product
from tcopt.compiler.options import CompileOptions
from tcopt.support.errors import InputError
from tcopt.tuner.arms import arms_of
from tcopt.tuner.task_search import Strategy
from tcopt.tuner.tasks import Task, tasks_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from tuning_page import curves_of, page  # noqa: E402
from tuning_replay import reach, replay  # noqa: E402
from tuning_tables import DRAWN, CaseTable, Row, TableMeasurer, table_arms  # noqa: E402

# Both folders have a package `models`; other tests need their own, also in other processes.
sys.path.remove(str(BENCHMARKS))


def _table(task: Task) -> CaseTable:
    """Times that grow with the distance from one tile; drawn choices are slow."""
    arm = arms_of(task)[0]
    rng = np.random.default_rng(5)
    rows: list[Row] = []
    for number, point in enumerate(arm.draw(48, rng)):
        choice = arm.space.choice(point)
        ratio = 0.8 + 0.02 * abs(choice["rows"] - 5) + 0.01 * abs(choice["vectors"] - 2)
        source = DRAWN if number < 24 else "model"
        rows.append(Row(arm.rule, choice, ratio + 0.3 * (source == DRAWN), source))
    failed = arm.space.choice(arm.draw(1, rng)[0])
    rows = [row for row in rows if row.choice != failed]
    return CaseTable("product", (Row(arm.rule, arm.default, 1.0, "default"), *rows))


@pytest.mark.nightly
def test_searches_are_replayed_over_a_table(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm", reason="the model is LightGBM's")
    (task,) = tasks_of(save_product(tmp_path / "m.onnx"), CompileOptions(target="cpu:haswell"))
    table = _table(task)
    table.write(tmp_path / "product.json.gz")
    assert CaseTable.read(tmp_path / "product.json.gz") == table
    (arm,) = table_arms(task, table)
    drawn = {tuple(row.choice.items()) for row in table.rows if row.source == DRAWN}
    points = arm.draw(40, np.random.default_rng(0))
    assert {tuple(arm.space.choice(p).items()) for p in points} <= drawn
    measurer = TableMeasurer(table)
    for row in table.rows[:5]:
        assert measurer.true_ratio(row.rule, row.choice) == row.ratio
    printed = replay({"product": task}, [table], [Strategy.MODEL, Strategy.RANDOM], 24, 2)
    assert "model at least as good as random in 1 of 1 kernels" in printed
    text, enough = reach({"product": task}, [table], 24, 40, 2)
    assert enough and "in each kernel: yes" in text
    text, enough = reach({"product": task}, [table], 1, 40, 2)
    assert not enough and "in each kernel: no" in text


def test_what_was_measured_becomes_a_page() -> None:
    """Median over seeds of the best so far; failed trials do not count."""
    ratios = {"model": [[1.2, 0.8, 0.5], [1.0, 0.5], [0.25]], "random": [[1.5, float("inf")]]}
    runs = [
        {"case": "C2", "strategy": way, "warm": False, "ratios": each, "confirmed": 2.0}
        for way, searches in ratios.items()
        for each in searches
    ]
    assert curves_of(runs)["model"]["C2"][0] == [1.0, 0.8, 0.5]
    assert "| C2 | 2.000x | 1.000x |" in page(curves_of(runs), runs)


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(b"no table")
    with pytest.raises(InputError, match="is not a table of choices"):
        CaseTable.read(tmp_path / "a.json.gz")
