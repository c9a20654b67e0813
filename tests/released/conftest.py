from tests.settle.conftest import desk, engine

__all__ = ["desk", "engine"]
