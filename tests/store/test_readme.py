"""The first test in tests/README.md, run verbatim."""

from types import ModuleType

from tests.world.pages import PROJECT, blocks
from tests.world.saga import Saga


def test_the_readmes_first_test_runs(saga: Saga) -> None:
    (shown,) = (block.text for block in blocks(PROJECT / "tests" / "README.md") if block.language == "python")
    first = ModuleType("test_first")
    exec(compile(shown, "tests/README.md", "exec"), vars(first))
    (test,) = (name for name in vars(first) if name.startswith("test_"))

    getattr(first, test)(saga)
