"""LocalEmu on 127.0.0.1 only, reading the mock file as Step Functions Local does.

LocalEmu itself listens on every interface and refuses mocked `States` errors. Run it with LocalEmu's Python
in place of `localemu start`.
"""

import functools
import time
from typing import Any

# The tests' Python does not have LocalEmu's packages.
from localemu.runtime.main import main  # type: ignore[import-not-found]
from localemu.services.stepfunctions.asl.component.common.error_name import (  # type: ignore[import-not-found]
    custom_error_name,
    states_error_name,
)
from localemu.services.stepfunctions.asl.component.common.retry import (  # type: ignore[import-not-found]
    retrier_decl,
)
from localemu.services.stepfunctions.asl.component.state.state_execution.state_task import (  # type: ignore[import-not-found]
    local_mock_eval_utils,
)
from localemu.services.stepfunctions.asl.utils import json_path  # type: ignore[import-not-found]
from twisted.internet import endpoints  # type: ignore[import-not-found]


class _Here(endpoints.TCP4ServerEndpoint):
    def __init__(self, reactor: Any, port: int) -> None:
        super().__init__(reactor, port, interface="127.0.0.1")


class _AtOnce:
    sleep = staticmethod(lambda seconds: time.sleep(0))


def _name(error: str) -> Any:
    of_the_service = error.startswith(custom_error_name.ILLEGAL_CUSTOM_ERROR_PREFIX)
    kind = (
        states_error_name.StatesErrorName.from_name if of_the_service else custom_error_name.CustomErrorName
    )
    return kind(error)


if __name__ == "__main__":
    for module, name, ours in (
        (endpoints, "TCP4ServerEndpoint", _Here),
        (retrier_decl, "time", _AtOnce),
        (local_mock_eval_utils, "CustomErrorName", _name),
        (json_path, "parse", functools.cache(json_path.parse)),
    ):
        assert hasattr(module, name), name
        setattr(module, name, ours)
    main()
