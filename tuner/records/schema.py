"""Tables of the records database.

Keys are hashes of content: equal rows have equal keys in all databases, so merging only adds
missing rows.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

VERSION = 1
"""Version of the tables; see `store.UPGRADES`."""

_KEY = 40

TABLES = MetaData()

META = Table(
    "meta",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
)

WORKLOAD = Table(
    "workload",
    TABLES,
    Column("key", String(_KEY), primary_key=True),
    Column("anchor", String(_KEY), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("te_text", Text, nullable=False),
    Column("ops", Float, nullable=False),
    Column("bytes", Float, nullable=False),
)

TARGET = Table(
    "target",
    TABLES,
    Column("key", String(_KEY), primary_key=True),
    Column("text", Text, nullable=False),
)

MACHINE = Table(
    "machine",
    TABLES,
    Column("key", String(_KEY), primary_key=True),
    Column("facts", JSON, nullable=False),
)

SCHEDULE = Table(
    "schedule",
    TABLES,
    Column("hash", String(_KEY), primary_key=True),
    Column("rule", Text, nullable=False),
    Column("text", Text, nullable=False),
)

TRIAL = Table(
    "trial",
    TABLES,
    Column("id", String(_KEY), primary_key=True),
    Column("workload", String(_KEY), nullable=False),
    Column("target", String(_KEY), nullable=False),
    Column("machine", String(_KEY), nullable=False),
    Column("schedule", String(_KEY), nullable=False),
    Column("rule", Text, nullable=False),
    Column("choice", JSON, nullable=False),
    Column("features_version", Integer, nullable=False),
    Column("status", String(20), nullable=False),
    Column("ns", JSON, nullable=False),
    Column("median_ns", Float),
    Column("mad_ns", Float),
    Column("default_ns", Float),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("hopeless", Boolean, nullable=False),
    Column("error", Text, nullable=False),
    Column("compile_s", Float, nullable=False),
    Column("object_hash", String(_KEY), nullable=False),
    Column("code_version", String(80), nullable=False),
    Column("options", Text, nullable=False),
    Column("run", String(_KEY), nullable=False),
    Column("at", Float, nullable=False),
    Index("trial_best", "workload", "target", "status", "median_ns"),
)

MODEL_RUN = Table(
    "model_run",
    TABLES,
    Column("id", String(_KEY), primary_key=True),
    Column("model", Text, nullable=False),
    Column("target", String(_KEY), nullable=False),
    Column("file_hash", String(_KEY), nullable=False),
    Column("untuned_ns", Float, nullable=False),
    Column("tuned_ns", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("accepted", Boolean, nullable=False),
    Column("at", Float, nullable=False),
)

CONTENT = (WORKLOAD, TARGET, MACHINE, SCHEDULE, TRIAL, MODEL_RUN)
"""Tables in the order in which rows are written: rows that others refer to come first."""
