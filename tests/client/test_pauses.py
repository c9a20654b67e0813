import pytest

from settlement_client.pauses import pause_seconds


def test_the_pause_before_a_retry_grows_and_is_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)

    assert [pause_seconds(failures) for failures in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]
