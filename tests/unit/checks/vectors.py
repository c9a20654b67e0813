"""Golden vectors of the writes for payments that wait for checks."""

from datetime import timedelta
from types import ModuleType

from settlement.checks import waits
from settlement.checks.check import Approve, Check
from tests.unit.vectors import CONFIG, IN_HASTE, SETTLEMENT, Vector
from tests.world.environment import NOW

CHECK = Check(
    name="delivered", refusals=("lost",), ask=lambda payment, token, tools: Approve(), wait_seconds=60
)
CONTENT = {"decision": "APPROVED", "reason": "", "by_way": "ask", "evidence": "{}"}
ENDED = {"since": "2026-11-20T12:00:00.123Z", "now": NOW, "config": CONFIG}
POSTERS: dict[ModuleType, tuple[Vector, ...]] = {
    waits: (
        Vector(waits.evidence, (SETTLEMENT, CHECK, CONTENT, NOW)),
        Vector(waits.begin, (SETTLEMENT, CHECK, [CHECK.name, "limits"], NOW + timedelta(days=1), NOW)),
        Vector(waits.keep, (SETTLEMENT, CHECK, None)),
        Vector(waits.keep, (SETTLEMENT, CHECK, "limits"), variant="in-wait"),
        Vector(waits.end, (SETTLEMENT, CHECK, CHECK.name), ENDED),
        Vector(waits.end, (IN_HASTE, CHECK, CHECK.name), ENDED, "named-deadline"),
        Vector(waits.end, (SETTLEMENT, CHECK, "limits"), ENDED, "by-another"),
    )
}
BUILDERS: dict[ModuleType, tuple[Vector, ...]] = {}
