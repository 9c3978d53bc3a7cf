"""Reports and traces of programs: every cycle is accounted for, and used entries are counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import tcopt
from models.quantised_models import quantised
from programs.vdla_programs import Conv, ConvWriter
from tcopt.backends.accelerator.report import report_of
from tcopt.backends.accelerator.simulator.trace import trace_events
from tcopt.backends.vdla.machines import MACHINES
from tcopt.dialects.vdla import Unit
from tcopt.runtime.program import Program
from tcopt.tools.benchmarking.accelerator import reports_of
from tcopt.tools.tcopt_bench import main

VDLA = MACHINES["vdla"]
CONV = Conv(32, 8, 64, 3, 1, 1, 4, 8, oc_threads=2, tile_co=2)
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "accelerator.mlir"


def test_every_cycle_of_a_unit_is_work_or_a_wait() -> None:
    """The number of products is that of the convolution."""
    report = report_of(ConvWriter(CONV).write(), VDLA)
    assert report.products == 8 * 8 * 9 * (32 // 16) * (64 // 16)
    for unit in (Unit.LOAD, Unit.COMPUTE):
        waits = sum(sum(causes.values()) for causes in report.stalls[unit].values())
        assert report.busy[unit] + waits == report.cycles
    assert report.bytes == sum(task.bytes for task in report.tasks)
    assert "bound by" in str(report)


def test_what_bounds_a_program() -> None:
    """A port with one byte per cycle, then a wide one with slow memory."""
    program = ConvWriter(CONV).write()
    slow = type(VDLA).of_facts({**VDLA.facts(), "port_bytes": 1})
    assert report_of(program, slow).bound_by == "the port"
    far = type(VDLA).of_facts({**VDLA.facts(), "port_bytes": 64, "latency": 2000})
    assert report_of(program, far).bound_by == "waits of the compute unit for load->compute"


def test_entries_in_use_are_those_that_are_read_again() -> None:
    """Two threads' tiles are live at once, and none at the end."""
    report = report_of(ConvWriter(CONV).write(), VDLA)
    events = trace_events(report.machine, report.tasks, report.timeline)
    counts = [e["args"]["entries"] for e in events if e["name"] == "entries inp"]
    writer = ConvWriter(CONV)
    assert 0 < max(counts) <= 2 * writer.inp_slot and min(counts) == 0 and counts[-1] == 0
    assert {e["name"] for e in events if e["ph"] == "C"} >= {"entries wgt", "entries acc"}


def test_bench_writes_a_trace_of_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    assert main([str(EXAMPLE), "--target", "vdla", "--trace", str(path)]) == 0
    output = capsys.readouterr().out
    assert output.startswith("@products: 277 cycles, 8 of products")
    assert "waits at" in output and "accelerator.mlir:15:3: load->compute 39" in output
    events = json.loads(path.read_text())["traceEvents"]
    assert {"wait: load->compute", "token load->compute"} <= {event["name"] for event in events}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module {}", "the file has no accelerator.program"),
        ("accelerator.program", "syntax"),
        (None, "cannot read"),
    ],
)
def test_bench_refuses_other_texts(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.mlir"
    if text is not None:
        path.write_text(text)
    assert main([str(path)]) == 1
    assert message in capsys.readouterr().err


def test_a_model_says_where_cycles_go_by_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two equal layers share one kernel but have their own nodes; in a trace as well."""
    source = quantised((16, 16, 16), 5)
    passes = {"instead-of:partition": "partition{all-of-them=true}"}
    model = tcopt.compile(source, "vdla", cache=False, workers=0, passes=passes)
    assert isinstance(model.program, Program)
    feeds = {"x": np.zeros((1, 16, 5, 5), np.float32)}
    reports = list(reports_of(model.program, model.profile(feeds, 1).kernels))
    assert [report.title.split(",")[0] for report in reports] == ["conv0", "conv1"]
    for report in reports:
        assert all(task.place.startswith(report.title[:5]) for task in report.tasks)
    told = [
        remark.message
        for call in model.explain().calls
        for remark in call.remarks
        if remark.by == "simulator"
    ]
    assert [text.split(";")[0] for text in told] == [r.summary().split(";")[0] for r in reports]
    path = tmp_path / "model.onnx"
    onnx.save(source, path)
    trace = tmp_path / "trace.json"
    inserted = "instead-of:partition=partition{all-of-them=true}"
    given = ["--target", "vdla", "--insert-passes", inserted, "--rounds", "1", "--no-cache"]
    assert main([str(path), *given, "--trace", str(trace)]) == 0
    assert "2 programs of an accelerator" in capsys.readouterr().out
    events = json.loads(trace.read_text())["traceEvents"]
    waits = [e for e in events if e["name"] == "wait: load->compute"]
    assert {e["args"]["location"][:5] for e in waits} == {"conv0", "conv1"}
    assert {e["pid"] for e in events if e["name"].startswith("token ")} == {2, 3}
