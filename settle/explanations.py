"""Explanations of the project's errors.

An error's meaning is the first paragraph of its docstring. `explanations.toml` has the rest. The page
`docs/reference/errors.md` is rendered from both.
"""

import inspect
import tomllib
from dataclasses import dataclass
from pathlib import Path

from settlement.core.model import errors
from settlement.core.model.errors import Refusal, SettlementError

_WHO = {
    "caller": "the caller",
    "operator": "the order's author",
    "on-call": "on call",
    "system": "no person",
}


@dataclass(frozen=True)
class Explanation:
    """An error's meaning, who must act, and how.

    - `is_final`: the same call is refused again. None: no function raises the error.
    - `page`: a file under `docs/`, with its section.
    """

    error: str
    meaning: str
    is_final: bool | None
    who: str
    act: str
    page: str


def every() -> dict[str, Explanation]:
    """Return explanations by error. Raises KeyError if an error has no explanation."""
    acts = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    told: dict[str, tuple[str, bool | None]] = {
        name: (_meaning(kind), issubclass(kind, Refusal)) for name, kind in kinds().items()
    }
    told |= {name: (act["meaning"], None) for name, act in acts.items() if "meaning" in act}
    return {
        name: Explanation(
            name, meaning, is_final, _WHO[acts[name]["who"]], acts[name]["act"], acts[name]["page"]
        )
        for name, (meaning, is_final) in told.items()
    }


def kinds() -> dict[str, type[SettlementError]]:
    return {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, SettlementError) and not kind.__subclasses__()
    }


def _meaning(kind: type[SettlementError]) -> str:
    return " ".join(inspect.cleandoc(str(kind.__doc__)).partition("\n\n")[0].split())
