"""How the pipeline reaches Kafka: one set of security settings, for Spark's Java clients and for our own calls.

The settings have librdkafka's names, as everywhere in kstreams-worker; here they become those of the Java client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstreams_worker.config import Settings
from kstreams_worker.errors import SettingsError

# Settings ask for an application's name; the pipeline is none, and is no member of a group.
_CLIENT_NAME = "kstreams-pipeline"

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """`java` has the Java client's names, `admin` librdkafka's, `group` kafka-python's."""

    java: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, Any] = field(repr=False)
    group: Mapping[str, Any] = field(repr=False)

    @classmethod
    def to(cls, bootstrap_servers: str) -> KafkaAccess:
        """A cluster without security."""
        return cls.of(Settings(application_id=_CLIENT_NAME, bootstrap_servers=bootstrap_servers))

    @classmethod
    def of(cls, settings: Settings, java_options: Mapping[str, str] | None = None) -> KafkaAccess:
        """The cluster of `settings`, with its security; `java_options` are added for Spark's clients.

        Raises SettingsError for a security setting that the Java client has no match for, or a file that cannot be read.
        """
        security = {name: str(value) for name, value in settings.client_config("consumer").items()}
        java = java_client_options(security) | dict(java_options or {})
        return cls(java, settings.client_config("admin"), settings.group_plane_config())

    @property
    def spark_options(self) -> dict[str, str]:
        """Options of Spark's Kafka reader and writer."""
        return {f"kafka.{name}": value for name, value in self.java.items()}


def java_client_options(client: Mapping[str, str]) -> dict[str, str]:
    """Servers and security in the Java client's names, from librdkafka's. Other settings are left out."""
    options = {
        name: client[name] for name in ("bootstrap.servers", "security.protocol", "ssl.cipher.suites") if name in client
    }
    mechanism = client.get("sasl.mechanisms")
    if mechanism is not None:
        options["sasl.mechanism"] = mechanism
        options["sasl.jaas.config"] = (
            f"{_LOGIN_MODULES[mechanism]} required "
            f"username={_quoted(client['sasl.username'])} password={_quoted(client['sasl.password'])};"
        )
    if "ssl.ca.location" in client or "ssl.ca.pem" in client:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.certificates"] = client.get("ssl.ca.pem") or _read(client, "ssl.ca.location")
    if "ssl.certificate.location" in client:
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.certificate.chain"] = _read(client, "ssl.certificate.location")
        options["ssl.keystore.key"] = _read(client, "ssl.key.location")
        if "ssl.key.password" in client:
            options["ssl.key.password"] = client["ssl.key.password"]
    if client.get("ssl.endpoint.identification.algorithm") == "none":
        options["ssl.endpoint.identification.algorithm"] = ""
    for name, harmless in (("enable.ssl.certificate.verification", "true"), ("ssl.crl.location", None)):
        if client.get(name, harmless) != harmless:
            raise SettingsError(
                f"{name}: Spark's Java clients have no such setting; "
                "remove it, or make up for it with --kafka-option NAME=VALUE in the Java client's names"
            )
    return options


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read(client: Mapping[str, str], name: str) -> str:
    try:
        return Path(client[name]).read_text()
    except OSError as error:
        raise SettingsError(f"{name}: {client[name]} cannot be read: {error.strerror}") from error
