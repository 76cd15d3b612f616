"""Where brokers ask who it is: one set of settings lets workers, their group and all commands in, and tells what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trustme
from harness.application import application
from harness.instances import run_command
from harness.secured import PASSWORD, SCRAM, SecuredKafka, secured_kafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


CERTIFICATE_NAMES = ("ssl.certificate.location", "ssl.key.location")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        yield running


def environment(directory: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """A settings file for instances and commands alike: no secret is on a command line."""
    file = directory / "settings.toml"
    file.write_text("".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in settings.items()))
    return {"KSTREAMS_CONFIG": str(file)}


@pytest.fixture(params=["PLAIN", SCRAM, "certificate"])
def settings(request: pytest.FixtureRequest, secured: SecuredKafka) -> dict[str, str]:
    return secured.with_certificate() if request.param == "certificate" else secured.with_password(request.param)


def test_an_application_runs_and_is_operated(secured: SecuredKafka, settings: dict[str, str], tmp_path: Path) -> None:
    """Both client libraries, the control topic, and what people do from outside; nobody tells the password."""
    access = environment(tmp_path, settings)
    with application(secured.plain, tmp_path, bootstrap_servers=settings["bootstrap.servers"]) as app:
        app.feeder.start()
        first, second = app.start(environment=access), app.start(environment=access)
        app.until_balanced(first, second)
        told = ""
        for command in (
            ["tasks"],
            ["lag"],
            ["group", "describe"],
            ["doctor", "harness.topologies:counts", "--set", f"state.dir={tmp_path / 'doctor'}"],
            ["config"],
            ["scale-down", "--instances", second.process_id],
        ):
            topics = {"INPUT_TOPIC": app.input_topic, "OUTPUT_TOPIC": app.output_topic}
            done = run_command(*command, "--application-id", app.id, environment={**access, **topics})
            assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}\n{app.describe()}"
            told += done.stdout + done.stderr
        assert second.wait() == 0, second.describe()
        app.until_balanced(first)
        app.finish()
        told += first.text() + second.text()
    assert PASSWORD not in told
    assert "PRIVATE KEY" not in told


@pytest.mark.parametrize(
    ("mistake", "reason", "next_step"),
    [
        ("wrong password", "Invalid username or password", "sasl.password"),
        ("wrong mechanism", "supported mechanisms: PLAIN,SCRAM-SHA-512", "sasl.mechanisms"),
        ("wrong authority", "certificate verify failed", "ssl.ca.location"),
        ("no certificate", "certificate", "the client's certificate"),
        ("TLS where there is none", "PLAINTEXT broker listener", "security.protocol"),
        ("no TLS where there is", "cannot reach Kafka", "security.protocol"),
    ],
)
def test_who_is_not_let_in_is_told_why(
    secured: SecuredKafka, tmp_path: Path, mistake: str, reason: str, next_step: str
) -> None:
    """In one line with the next step, by whatever is started."""
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    with_password, with_certificate = secured.with_password("PLAIN"), secured.with_certificate()
    without = {name: value for name, value in with_certificate.items() if name not in CERTIFICATE_NAMES}
    wrong = {
        "wrong password": {**with_password, "sasl.password": "not-the-password"},
        "wrong mechanism": {**with_password, "sasl.mechanisms": "SCRAM-SHA-256"},
        "wrong authority": {**with_password, "ssl.ca.location": str(other)},
        "no certificate": without,
        "TLS where there is none": {**with_password, "bootstrap.servers": secured.plain.bootstrap_servers},
        "no TLS where there is": {"bootstrap.servers": secured.password_servers},
    }[mistake]
    access = environment(tmp_path, wrong) | {"INPUT_TOPIC": "in", "OUTPUT_TOPIC": "out"}
    run = ["run", "harness.topologies:counts", "--state-dir", str(tmp_path / "state"), "--http-port", "0"]
    for command in (run, ["lag"]) if mistake == "wrong password" else (run,):
        done = run_command(*command, "--application-id", "app", environment=access)
        assert done.returncode == 1
        (line,) = (done.stdout + done.stderr).strip().splitlines()
        assert line.startswith(f"error: cannot reach Kafka at {wrong['bootstrap.servers']}: ")
        assert reason in line
        assert next_step in line
        assert wrong.get("sasl.password", "?") not in line
