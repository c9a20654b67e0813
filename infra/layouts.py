"""What the settings may say of the layouts of a settlement's row, as the functions' code has it."""

from collections.abc import Mapping

LAYOUTS = 2
"""The newest layout, as `settlement/core/model/layout.py` has it."""

MIGRATIONS: Mapping[str, tuple[str, ...]] = {"parts-by-name": ("parts", "reversals_in_part", "layout")}
"""The attributes that each migration writes, as `settle/migrations/rows.py` has them."""
