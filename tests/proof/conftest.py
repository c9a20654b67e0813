import pytest

from settlement.proof import pages, payout_look, second_look


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_look, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(payout_look, "PAUSE_SECONDS", 0)


@pytest.fixture
def one_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan without threads, for tests with many proofs."""
    monkeypatch.setattr(pages, "SEGMENTS", 1)
