"""Settings in the names of the two client libraries: librdkafka's (data plane) and kafka-python's (group plane).

One set of security settings serves both. They are librdkafka's names; for kafka-python, TLS becomes one
`ssl.SSLContext`, so that CA directories, ciphers and host-name checks mean the same on both planes.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kstreams_worker.config.names import SECURITY_NAMES
from kstreams_worker.errors import SettingsError

RECONNECT_BACKOFF_MAX_MS = 500
"""How long a client may wait before it looks again whether a broker that was away is back: its tasks stand still meanwhile.
librdkafka's own limit is 10 s, which made a restart of 2 s an outage of up to 10 s."""

ClientKind = Literal["consumer", "producer", "restore", "admin"]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Those that both client libraries can do as installed: GSSAPI needs a librdkafka built for it, OAUTHBEARER a source of
tokens in each."""


def data_plane_config(bootstrap_servers: str, client: Mapping[str, str], kind: ClientKind) -> dict[str, str | int]:
    """Servers, security and the overrides prefixed with `kind`, in librdkafka's names."""
    config: dict[str, str | int] = {
        "bootstrap.servers": bootstrap_servers,
        "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
    }
    config.update({name: value for name, value in client.items() if name in SECURITY_NAMES})
    prefix = f"{kind}."
    config.update({name.removeprefix(prefix): value for name, value in client.items() if name.startswith(prefix)})
    return config


def group_plane_config(bootstrap_servers: str, client: Mapping[str, str]) -> dict[str, Any]:
    """Servers and security in kafka-python's names. Raises SettingsError where a certificate cannot be used."""
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    config: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in bootstrap_servers.split(",")],
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL_"):
        config["sasl_mechanism"] = client["sasl.mechanisms"]
        config["sasl_plain_username"] = client["sasl.username"]
        config["sasl_plain_password"] = client["sasl.password"]
    if protocol.endswith("SSL"):
        config["ssl_context"] = _ssl_context(client)
    return config


def security_problems(client: Mapping[str, str]) -> dict[str, str]:
    """What is wrong among the security settings, by name, before any client is made. Never shows a secret."""
    problems: dict[str, str] = {}
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        problems["security.protocol"] = f"{protocol!r} is none of {', '.join(PROTOCOLS)}"
    if protocol.startswith("SASL_"):
        mechanism = client.get("sasl.mechanisms")
        if mechanism not in MECHANISMS:
            problems["sasl.mechanisms"] = f"{mechanism!r} is none of {', '.join(MECHANISMS)}"
        for name in ("sasl.username", "sasl.password"):
            if not client.get(name):
                problems[name] = f"required with security.protocol {protocol}; set it, too"
    elif any(name.startswith("sasl.") for name in client):
        problems["security.protocol"] = f"sasl settings are given, and {protocol} would not use them; set SASL_SSL"
    if ("ssl.certificate.location" in client) != ("ssl.key.location" in client):
        problems["ssl.certificate.location"] = "goes together with ssl.key.location; give both or neither"
    verification = client.get("enable.ssl.certificate.verification", "true")
    if verification not in ("true", "false"):
        problems["enable.ssl.certificate.verification"] = f"{verification!r} is neither true nor false"
    algorithm = client.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm not in ("https", "none"):
        problems["ssl.endpoint.identification.algorithm"] = f"{algorithm!r} is neither https nor none"
    return problems


def _ssl_context(client: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = client.get("ssl.endpoint.identification.algorithm", "https") == "https"
    if client.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    name = ""
    try:
        if "ssl.ca.location" in client or "ssl.ca.pem" in client:
            name = "ssl.ca.location" if "ssl.ca.location" in client else "ssl.ca.pem"
            location = client.get("ssl.ca.location", "")
            context.load_verify_locations(
                cafile=location if location and not Path(location).is_dir() else None,
                capath=location if location and Path(location).is_dir() else None,
                cadata=client.get("ssl.ca.pem"),
            )
        else:
            context.load_default_certs()
        if "ssl.certificate.location" in client:
            name = "ssl.certificate.location"
            # A password that is not needed is ignored; without one given, an encrypted key must not ask the terminal.
            context.load_cert_chain(
                client["ssl.certificate.location"], client["ssl.key.location"], client.get("ssl.key.password", "")
            )
        if "ssl.crl.location" in client:
            name = "ssl.crl.location"
            context.load_verify_locations(cafile=client["ssl.crl.location"])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if "ssl.cipher.suites" in client:
            name = "ssl.cipher.suites"
            context.set_ciphers(client["ssl.cipher.suites"])
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        shown = "" if name.endswith(".pem") else f" {client[name]}"
        raise SettingsError(f"{name}:{shown} cannot be used: {getattr(error, 'strerror', None) or error}") from error
    return context
