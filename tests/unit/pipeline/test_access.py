"""One set of security settings, in the names of Spark's Java clients."""

from pathlib import Path

import pytest

from kstreams_worker.config import Settings
from kstreams_worker.config.clients import RECONNECT_BACKOFF_MAX_MS
from kstreams_worker.errors import SettingsError
from kstreams_worker.pipeline.access import KafkaAccess, java_client_options

SERVERS = "broker:9092"


def access(**client: str) -> KafkaAccess:
    settings = {"application.id": "a", "bootstrap.servers": SERVERS} | {
        name.replace("_", "."): value for name, value in client.items()
    }
    return KafkaAccess.of(Settings.model_validate(settings))


def test_without_security_there_are_only_servers() -> None:
    """All three clients reach the same brokers."""
    plain = KafkaAccess.to(SERVERS)
    assert plain.spark_options == {"kafka.bootstrap.servers": SERVERS}
    assert plain.admin == {"bootstrap.servers": SERVERS, "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS}
    assert plain.group["bootstrap_servers"] == [SERVERS]


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "PlainLoginModule"), ("SCRAM-SHA-512", "ScramLoginModule")]
)
def test_user_and_password_become_a_login_module(mechanism: str, module: str) -> None:
    """Quotes and backslashes in a password reach the broker unchanged."""
    found = access(
        security_protocol="SASL_SSL", sasl_mechanisms=mechanism, sasl_username="me", sasl_password='a"b\\c'
    ).java
    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.mechanism"] == mechanism
    assert found["sasl.jaas.config"].endswith(f'.{module} required username="me" password="a\\"b\\\\c";')


def test_certificates_are_handed_over_as_their_text(tmp_path: Path) -> None:
    """Spark's executors may run where the files are not."""
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"the {name}")
    found = java_client_options(
        {
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "cert"),
            "ssl.key.location": str(tmp_path / "key"),
            "ssl.key.password": "secret",
        }
    )
    assert found == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "the ca",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "the cert",
        "ssl.keystore.key": "the key",
        "ssl.key.password": "secret",
    }


def test_host_name_check_can_be_left_out() -> None:
    """Java says so with an empty algorithm."""
    assert java_client_options({"ssl.endpoint.identification.algorithm": "none"}) == {
        "ssl.endpoint.identification.algorithm": ""
    }


@pytest.mark.parametrize(
    "client",
    [{"enable.ssl.certificate.verification": "false"}, {"ssl.crl.location": "crl.pem"}, {"ssl.ca.location": "/no"}],
)
def test_what_cannot_be_honoured_is_refused_by_name(client: dict[str, str]) -> None:
    """Never a weaker or other connection than asked for."""
    with pytest.raises(SettingsError, match=next(iter(client))):
        java_client_options(client)


def test_secrets_are_not_shown() -> None:
    """In logs and tracebacks."""
    found = access(
        security_protocol="SASL_SSL", sasl_mechanisms="PLAIN", sasl_username="me", sasl_password="very-secret"
    )
    assert "very-secret" not in repr(found)
