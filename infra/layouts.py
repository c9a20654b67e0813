from collections.abc import Mapping

LAYOUTS = 2
"""The newest layout, as in `settlement/core/model/layout.py`."""

MIGRATIONS: Mapping[str, tuple[str, ...]] = {"parts-by-name": ("parts", "reversals_in_part", "layout")}
"""Attributes that each migration writes, as in `settle/migrations/rows.py`."""
