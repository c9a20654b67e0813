"""The certificates that the client accepts as the provider's."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from settlement.model.errors import KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.verdict import Verdict
from tests.kyc.raw import HEAD_AND_LENGTH, IMPATIENT, answer, client, dripping, raw, silent


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """The one authority that the client's machine trusts."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    return authority


def serving(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    return context


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_certificate_of_a_trusted_authority_for_this_host_is_accepted(
    authority: trustme.CA, settlement: Settlement, config: StageConfig, host: str
) -> None:
    with raw(answer(), serving(authority.issue_cert(host))) as server:
        verdict = client(f"https://{host}:{server.port}", config).ask(settlement, "secret")

    assert isinstance(verdict, Verdict)


def test_no_other_certificate_is_accepted_and_no_request_is_sent(
    authority: trustme.CA, settlement: Settlement, config: StageConfig
) -> None:
    long_ago = [datetime(year, 1, 1, tzinfo=UTC) for year in (2019, 2020)]
    for case, certificate in {
        "signed by an unknown authority": trustme.CA().issue_cert("127.0.0.1"),
        "of another host": authority.issue_cert("kyc.example"),
        "of another address": authority.issue_cert("127.0.0.2"),
        "expired": authority.issue_cert("127.0.0.1", not_before=long_ago[0], not_after=long_ago[1]),
    }.items():
        with raw(answer(), serving(certificate)) as server:
            with pytest.raises(KycUnavailable, match=r"^kyc: SSLError$"):
                client(f"https://127.0.0.1:{server.port}", config).ask(settlement, "secret")

            assert server.requests == [], case


def test_a_handshake_that_is_not_answered_is_an_outage(settlement: Settlement, config: StageConfig) -> None:
    with raw(silent) as server, pytest.raises(KycUnavailable):
        client(f"https://127.0.0.1:{server.port}", config, **IMPATIENT).ask(settlement, "secret")


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nX: ", HEAD_AND_LENGTH], ids=["in a header", "in the body"]
)
def test_a_drip_ends_within_the_bound_under_encryption_too(
    authority: trustme.CA, settlement: Settlement, config: StageConfig, head: bytes
) -> None:
    context = serving(authority.issue_cert("127.0.0.1"))

    with raw(dripping(head, b"x"), context) as server, pytest.raises(KycUnavailable):
        client(
            f"https://127.0.0.1:{server.port}", config, connect_timeout_seconds=1, read_timeout_seconds=0.4
        ).ask(settlement, "secret")


def test_a_connection_is_kept_under_encryption_too(
    authority: trustme.CA, settlement: Settlement, config: StageConfig
) -> None:
    context = serving(authority.issue_cert("127.0.0.1"))

    with raw(lambda connection: connection.sendall(answer()), context) as server:
        asking = client(f"https://127.0.0.1:{server.port}", config)
        for _ in range(5):
            asking.ask(settlement, "secret")

        assert (len(server.requests), server.connections) == (5, 1)
