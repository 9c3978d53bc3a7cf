"""The suites: modules with a list CASES. `--only` names them."""

from __future__ import annotations

import importlib
import pkgutil

from case import Case


def all_suites() -> dict[str, list[Case]]:
    """Return every suite's cases by name."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"suites.{name}").CASES for name in names}
