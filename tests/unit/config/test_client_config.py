"""One set of security settings, in the names of both client libraries."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from kstreams_worker.config import Settings
from kstreams_worker.config.clients import RECONNECT_BACKOFF_MAX_MS
from kstreams_worker.errors import SettingsError

REQUIRED = {"application.id": "orders", "bootstrap.servers": "a:1, b:2"}


def load(given: dict[str, object]) -> Settings:
    return Settings.load(env={}, overrides=REQUIRED | given)


def test_every_client_gets_the_servers_the_security_and_its_own_overrides() -> None:
    settings = load(
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "me",
            "sasl.password": "secret",
            "consumer.fetch.min.bytes": 7,
            "producer.linger.ms": 3,
        }
    )
    common = {
        "bootstrap.servers": "a:1,b:2",
        "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "me",
        "sasl.password": "secret",
    }
    assert settings.client_config("consumer") == common | {"fetch.min.bytes": "7"}
    assert settings.client_config("producer") == common | {"linger.ms": "3"}
    assert settings.client_config("restore") == settings.client_config("admin") == common
    assert settings.group_plane_config() == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
    }


def test_without_security_the_group_plane_speaks_plaintext() -> None:
    assert load({}).group_plane_config() == {"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "PLAINTEXT"}


def context_of(given: dict[str, object]) -> ssl.SSLContext:
    context = load({"security.protocol": "SSL"} | given).group_plane_config()["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    return context


def test_tls_checks_certificate_and_host_name_by_default() -> None:
    context = context_of({})
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_tls_checks_can_be_switched_off_one_by_one() -> None:
    without_names = context_of({"ssl.endpoint.identification.algorithm": "none"})
    assert (without_names.verify_mode, without_names.check_hostname) == (ssl.CERT_REQUIRED, False)
    unverified = context_of({"enable.ssl.certificate.verification": False})
    assert (unverified.verify_mode, unverified.check_hostname) == (ssl.CERT_NONE, False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate and its key, encrypted with the password `pass`."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = directory / "cert.pem", directory / "key.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-subj", "/CN=test", "-passout", "pass:pass"]
    subprocess.run([*request, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def test_tls_with_our_own_ca_and_client_certificate(certificate: tuple[Path, Path]) -> None:
    path, key = certificate
    client = {"ssl.certificate.location": path, "ssl.key.location": key, "ssl.key.password": "pass"}
    by_file = context_of({"ssl.ca.location": path, **client, "ssl.cipher.suites": "ECDHE+AESGCM"})
    assert [ca["subject"] for ca in by_file.get_ca_certs()] == [((("commonName", "test"),),)]
    by_text = context_of({"ssl.ca.pem": path.read_text()})
    assert len(by_text.get_ca_certs()) == 1
    context_of({"ssl.ca.location": path.parent})


def test_tls_files_that_cannot_be_used_are_named(certificate: tuple[Path, Path]) -> None:
    path, key = certificate
    with pytest.raises(SettingsError, match=r"ssl\.ca\.location: /nowhere/ca\.pem cannot be used: No such file"):
        context_of({"ssl.ca.location": "/nowhere/ca.pem"})
    for password in ({}, {"ssl.key.password": "wrong"}):
        with pytest.raises(SettingsError, match=r"ssl\.certificate\.location: .*cert\.pem cannot be used") as caught:
            context_of({"ssl.certificate.location": path, "ssl.key.location": key, **password})
        assert "wrong" not in str(caught.value)
    with pytest.raises(SettingsError, match=r"ssl\.ca\.pem: cannot be used"):
        context_of({"ssl.ca.pem": "no certificate"})
