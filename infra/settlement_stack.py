from collections.abc import Sequence

from aws_cdk import IStackSynthesizer, Stack
from constructs import Construct

from .config import Settings
from .core import Room
from .rooms import ROOMS
from .saga import SettlementSaga


class SettlementStack(Stack):
    """A saga alone in its stack."""

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
        SettlementSaga(self, "Default", settings=settings, rooms=rooms)
