"""Exponents of currencies and assets. They are pinned: an update of a package must not revalue a balance."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

PINNED_EXPONENTS: dict[str, int] = tomllib.loads(
    (Path(__file__).parent / "currencies.toml").read_text("utf-8")
)

ASSET = re.compile(r"(?![A-Z]{3}$)[A-Z][A-Z0-9]{2,11}", re.ASCII)
"""An asset's code. ISO 4217's codes have three letters; an asset's never.

It has no `:` and no `#`, which separate parts of names.
"""

ASSET_EXPONENT_MAX = 8
"""The contracts' maximum, which leaves seven digits before the point."""


def exponents_of(currencies: Iterable[str], assets: Mapping[str, int]) -> dict[str, int]:
    """Return decimals by code. Raises ValueError, naming the setting."""
    if unpinned := sorted(set(currencies) - PINNED_EXPONENTS.keys()):
        raise ValueError(f"currencies: not in infra/currencies.toml: {', '.join(unpinned)}")
    for code, exponent in assets.items():
        if not ASSET.fullmatch(code):
            raise ValueError(
                f"assets: {code} must match ^{ASSET.pattern}$: three letters are a currency of ISO 4217"
            )
        if type(exponent) is not int or not 0 <= exponent <= ASSET_EXPONENT_MAX:
            raise ValueError(f"assets: {code} must have from 0 to {ASSET_EXPONENT_MAX} decimals")
    return {code: PINNED_EXPONENTS[code] for code in currencies} | dict(assets)
