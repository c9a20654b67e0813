from tests.settle.conftest import desk, ledger

__all__ = ["desk", "ledger"]
