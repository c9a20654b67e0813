import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from settlement.core.model.errors import KycUnavailable
from settlement.core.model.verdict import Verdict
from tests.kyc.conftest import Ask
from tests.kyc.raw import HEAD_AND_LENGTH, answer, client, dripping, raw, says


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
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
def test_a_trusted_certificate_for_the_host_gives_a_kept_connection(
    authority: trustme.CA, ask: Ask, host: str
) -> None:
    with raw(says(answer(), hang_up=False), serving(authority.issue_cert(host))) as server:
        asking = client(f"https://{host}:{server.port}")
        answers = [ask(asking) for _ in range(3)]

    assert [type(each) for each in answers] == [Verdict] * 3
    assert server.connections == 1


def test_an_untrusted_certificate_is_refused_before_any_request(authority: trustme.CA, ask: Ask) -> None:
    long_ago = [datetime(year, 1, 1, tzinfo=UTC) for year in (2019, 2020)]
    for case, certificate in {
        "signed by an unknown authority": trustme.CA().issue_cert("127.0.0.1"),
        "of another host": authority.issue_cert("kyc.example"),
        "of another address": authority.issue_cert("127.0.0.2"),
        "expired": authority.issue_cert("127.0.0.1", not_before=long_ago[0], not_after=long_ago[1]),
    }.items():
        with raw(answer(), serving(certificate)) as server:
            outage = ask(client(f"https://127.0.0.1:{server.port}"))

        assert (str(outage), server.requests) == ("kyc: SSLError", []), case


def test_a_slow_dripping_answer_over_tls_is_cut_off(authority: trustme.CA, ask: Ask) -> None:
    context = serving(authority.issue_cert("127.0.0.1"))

    with raw(dripping(HEAD_AND_LENGTH, b"x"), context) as server:
        outage = ask(client(f"https://127.0.0.1:{server.port}", (1, 0.2)))

    assert isinstance(outage, KycUnavailable)
