from collections.abc import Mapping
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints


def check_types(given: Mapping[str, Any], settings: type) -> None:
    """Raise ValueError for a wrong type, naming the setting."""
    hints = get_type_hints(settings)
    for name, value in given.items():
        if not _fits(value, hints[name]):
            told = hints[name].__name__ if isinstance(hints[name], type) else str(hints[name])
            raise ValueError(f"{name}: must be {told.rpartition('abc.')[2]}, and not {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    inner = get_args(hint)
    if isinstance(hint, UnionType):
        return any(_fits(value, one) for one in inner)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(one, inner[0]) for one in value)
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(one, kind) for pair in value.items() for one, kind in zip(pair, inner, strict=True)
        )
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    return isinstance(value, (int, float) if hint is float else hint)
