"""A broker with listeners as they are in production: TLS with passwords, TLS with certificates; and who may come in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kstreams_worker.devbroker.cluster import Cluster
from kstreams_worker.devbroker.embedded import EmbeddedBroker
from kstreams_worker.devbroker.ports import free_ports
from kstreams_worker.devbroker.properties import HOST
from kstreams_worker.testing.broker import RunningKafka

USER = "orders"
PASSWORD = "correct-horse;\"battery'staple"
"""With what is hard to quote."""
SCRAM = "SCRAM-SHA-512"
MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class SecuredKafka:
    """`plain` is for the tests themselves."""

    plain: RunningKafka
    password_servers: str
    """SASL over TLS: PLAIN and SCRAM."""
    certificate_servers: str
    """TLS that asks for the client's certificate."""
    directory: Path
    """Where the certificates are."""

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def certificate(self) -> Path:
        return self.directory / "client.pem"

    @property
    def key(self) -> Path:
        return self.directory / "client-key.pem"

    def with_password(self, mechanism: str) -> dict[str, str]:
        """Settings of a client that knows a password."""
        return {
            "bootstrap.servers": self.password_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.ca),
        }

    def with_certificate(self) -> dict[str, str]:
        """Settings of a client that has a certificate; the CA is in the settings themselves."""
        return {
            "bootstrap.servers": self.certificate_servers,
            "security.protocol": "SSL",
            "ssl.ca.pem": self.ca.read_text(),
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
        }


@contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    """One node, for the length of a `with` block."""
    _write_certificates(directory)
    data = directory / "kafka"
    node = Cluster.open(data).nodes[0]
    passwords, certificates = (f"{HOST}:{port}" for port in free_ports(2))
    with EmbeddedBroker(
        1, data, _properties(node.client_address, node.controller_port, passwords, certificates, directory)
    ) as broker:
        _add_user(broker.bootstrap_servers)
        yield SecuredKafka(RunningKafka(broker.bootstrap_servers, broker), passwords, certificates, directory)


def _properties(
    plain: str, controller_port: int, passwords: str, certificates: str, directory: Path
) -> Mapping[str, str]:
    secured = f"CLIENT://{plain},PASSWORDS://{passwords},CERTIFICATES://{certificates}"
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "listeners": f"{secured},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": secured,
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,PASSWORDS:SASL_SSL,CERTIFICATES:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "listener.name.certificates.ssl.client.auth": "required",
        "listener.name.passwords.sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "listener.name.passwords.plain.sasl.jaas.config": (
            f'{MODULES}.plain.PlainLoginModule required user_{USER}="{quoted}";'
        ),
        f"listener.name.passwords.{SCRAM.lower()}.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    }


def _write_certificates(directory: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    broker, client = authority.issue_cert(HOST), authority.issue_cert("client.example.org")
    (directory / "broker.pem").write_bytes(_key(broker) + _chain(broker))
    (directory / "client.pem").write_bytes(_chain(client))
    (directory / "client-key.pem").write_bytes(_key(client))


def _chain(made: trustme.LeafCert) -> bytes:
    return b"".join(part.bytes() for part in made.cert_chain_pems)


def _key(made: trustme.LeafCert) -> bytes:
    """In the one format that Java reads, too."""
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _add_user(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(30)
