from collections.abc import Sequence

from aws_cdk import CfnOutput, IStackSynthesizer, Stack, Tags
from constructs import Construct

from infra.alarms import watch
from infra.config import Settings
from infra.core import Room, build_core, outputs_of
from infra.dashboard import Dashboard
from infra.rooms import ROOMS, handlers_of, orders_of


class SettlementStack(Stack):
    def __init__(
        self,
        scope: Construct,
        *,
        settings: Settings,
        rooms: Sequence[Room] = ROOMS,
        synthesizer: IStackSynthesizer | None = None,
    ) -> None:
        super().__init__(
            scope,
            settings.stack_name,
            synthesizer=synthesizer,
            termination_protection=settings.keeps_data,
        )
        if not settings.is_embedded:  # the embedded AWS has no bill
            for name, value in settings.tags.items():
                Tags.of(self).add(name, value)
        core = build_core(self, settings, handlers_of(rooms), orders_of(rooms))
        for room in rooms:
            core.added.append(room.build(core, settings))
        watch(core, settings=settings)
        Dashboard(self, "Dashboard", core)
        for name, value in outputs_of(core, settings).items():
            CfnOutput(self, name, value=value)
