import pytest

from infra.account import session


@pytest.mark.parametrize(
    ("region", "default", "found"),
    [
        ("eu-west-1", "us-east-1", "eu-west-1"),
        ("eu-west-1", None, "eu-west-1"),
        ("", "us-east-1", "us-east-1"),
        (None, "us-east-1", "us-east-1"),
        (None, None, None),
    ],
)
def test_aws_region_has_precedence_over_aws_default_region(
    monkeypatch: pytest.MonkeyPatch, region: str | None, default: str | None, found: str | None
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in (("AWS_REGION", region), ("AWS_DEFAULT_REGION", default)):
        monkeypatch.setenv(name, value) if value is not None else monkeypatch.delenv(name, raising=False)

    assert session().region_name == found
