"""Names of settings: dotted, in the environment, those passed on to clients, and the nearest known one to a mistake."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

ENVIRONMENT_PREFIX = "KSTREAMS_"
CLIENT_KINDS = ("consumer", "producer", "restore", "admin")

ALIASES: Mapping[str, str] = {
    "num.standby.replicas": "num.standby.tasks",
    "sasl.mechanism": "sasl.mechanisms",
}
"""Other spellings that mean the same setting."""

SECURITY_NAMES = frozenset(
    {
        "security.protocol",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.crl.location",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
"""The security settings, in librdkafka's names, that the clients of both planes (group and data) can honour."""

RESERVED_CLIENT_NAMES: Mapping[str, str] = {
    "bootstrap.servers": "set bootstrap.servers without a prefix",
    "session.timeout.ms": "set session.timeout.ms without a prefix",
    "heartbeat.interval.ms": "set heartbeat.interval.ms without a prefix",
    "transaction.timeout.ms": "set transaction.timeout.ms without a prefix",
    "group.instance.id": "set group.instance.id without a prefix",
    "group.id": "it is the application.id",
    "group.protocol": "the group plane keeps the membership, not this client",
    "partition.assignment.strategy": "the leader's assignor decides",
    "enable.auto.commit": "offsets are committed with the outputs",
    "enable.auto.offset.store": "offsets are committed with the outputs",
    "isolation.level": "processing.guarantee decides",
    "transactional.id": "each worker has its own, which its successor fences",
    "enable.idempotence": "processing.guarantee decides",
}
"""Client settings that the runtime itself sets, and why or where to set them instead."""

FOREIGN_NAMES: Mapping[str, str] = {
    "num.stream.threads": "set num.workers (processes, not threads)",
    "cache.max.bytes.buffering": "set cache.max.bytes",
    "statestore.cache.max.bytes": "set cache.max.bytes",
    "max.warmup.replicas": "learners are limited by stream.imbalance.percentage",
    "default.deserialization.exception.handler": "set deserialization.exception.policy",
    "deserialization.exception.handler": "set deserialization.exception.policy",
    "client.id": "client ids are made from application.id, host and worker",
    "group.id": "set application.id",
    "sasl.jaas.config": "set sasl.username and sasl.password",
    "ssl.truststore.location": "set ssl.ca.location (a PEM file)",
    "ssl.keystore.location": "set ssl.certificate.location and ssl.key.location (PEM files)",
    "ssl.keystore.password": "set ssl.key.password",
    "max.poll.records": "set poll.max.records",
}
"""Names from other Kafka clients, and what to write here."""

RESERVED_ENVIRONMENT = frozenset({"KSTREAMS_CONFIG", "KSTREAMS_DEBUG"})
"""Variables of the command line that are not settings: the settings file, and tracebacks for errors in our own code."""
TOOL_ENVIRONMENT_PREFIXES = ("KSTREAMS_BROKER_", "KSTREAMS_TEST_")
"""Variables of the development broker and of the tests."""

_SECRET = re.compile(r"password|passphrase|secret|token|credential|jaas|\.pem$")
# Kubernetes gives every pod variables for each service of its namespace; a service `kstreams...` has our prefix.
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$")
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")


def dotted_name(attribute: str) -> str:
    """The setting's name of an attribute of Settings: `num_workers` is `num.workers`."""
    return attribute.replace("_", ".")


def environment_name(dotted: str) -> str:
    """The environment variable of a setting: `num.workers` is `KSTREAMS_NUM_WORKERS`."""
    return ENVIRONMENT_PREFIX + dotted.replace(".", "_").upper()


def canonical_name(dotted: str) -> str:
    """The one name used inside for a setting that has several."""
    return ALIASES.get(dotted, dotted)


def is_secret(dotted: str) -> bool:
    """Whether the value must never be shown."""
    return _SECRET.search(dotted) is not None


def is_foreign_variable(variable: str, value: str) -> bool:
    """Whether an environment variable with our prefix is none of our settings: a tool's, or put there by Kubernetes."""
    if variable in RESERVED_ENVIRONMENT or variable.startswith(TOOL_ENVIRONMENT_PREFIXES):
        return True
    return bool(_SERVICE_LINK.search(variable) or (variable.endswith("_PORT") and _SERVICE_LINK_VALUE.match(value)))


def is_client_setting(dotted: str) -> bool:
    """Whether a setting is passed on to clients rather than read by the worker: security, or with a client's prefix."""
    return dotted in SECURITY_NAMES or dotted.partition(".")[0] in CLIENT_KINDS


def client_problem(dotted: str) -> str | None:
    """Why a setting with a client's prefix cannot be passed on, or None. Its value is for the client to judge."""
    kind, _, name = dotted.partition(".")
    if kind not in CLIENT_KINDS:
        return None
    if not name:
        return "a client's setting has a name after the prefix"
    if kind == "restore" and name.startswith("consumer."):
        return f"write restore.{name.removeprefix('consumer.')}"
    why = RESERVED_CLIENT_NAMES.get(name)
    return f"the runtime sets this itself; {why}" if why else None


def unknown_problem(dotted: str, known: Iterable[str]) -> str:
    """The sentence for a name that is no setting, with the nearest one that is."""
    if dotted in FOREIGN_NAMES:
        return f"unknown setting; {FOREIGN_NAMES[dotted]}"
    near = difflib.get_close_matches(dotted, sorted({*known, *SECURITY_NAMES, *ALIASES}), n=1, cutoff=0.6)
    if near:
        return f"unknown setting; did you mean {near[0]}?"
    return "unknown setting; `kstreams-worker config --verbose` lists all"
