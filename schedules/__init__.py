"""Schedules: the `Schedule` API, its primitives, and rules that write schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcopt.schedules.api.handles import Block as Block
    from tcopt.schedules.api.handles import Loop as Loop
    from tcopt.schedules.api.schedule import Schedule as Schedule


def __getattr__(name: str) -> Any:
    # Lazy: this package also contains passes, which do not need the API.
    if name in ("Schedule", "Block", "Loop"):
        from tcopt.schedules.api import schedule

        return getattr(schedule, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
