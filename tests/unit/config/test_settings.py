"""Settings: defaults, names, and one message that tells all that is wrong."""

import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from kstreams_worker.config import HIDDEN, Settings, known_names
from kstreams_worker.errors import SettingsError

REQUIRED = {"application.id": "orders", "bootstrap.servers": "broker:9092"}


def load(**given: object) -> Settings:
    """Settings from dotted names written with `_`, and nothing else."""
    return Settings.load(env={}, overrides=REQUIRED | {name.replace("_", "."): value for name, value in given.items()})


def problem_of(**given: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load(**given)
    return str(caught.value)


def test_defaults_that_depend_on_other_settings() -> None:
    """Capacity follows the number of workers, and the dead-letter topic the application's name."""
    settings = load(num_workers=3)
    assert (settings.instance_capacity, settings.dead_letter_topic) == (3, "orders-dead-letter")
    assert load(num_workers=3, instance_capacity=8).instance_capacity == 8


def test_built_from_code_by_attribute_names() -> None:
    settings = Settings(
        application_id="orders", bootstrap_servers="broker:9092", client={"consumer.fetch.min.bytes": "7"}
    )
    assert settings.processing_guarantee == "exactly_once_v2"
    assert settings.client_config("consumer")["fetch.min.bytes"] == "7"


def test_code_too_gets_our_error_for_a_mistake() -> None:
    with pytest.raises(SettingsError, match=r"num\.workers: 0: "):
        Settings(application_id="orders", bootstrap_servers="broker:9092", num_workers=0)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load().num_workers = 2  # type: ignore[misc]


def test_settings_survive_pickling_with_their_sources() -> None:
    """The supervisor sends them to its workers."""
    settings = load(sasl_username="me", sasl_password="secret", sasl_mechanism="PLAIN", security_protocol="SASL_SSL")
    copy = pickle.loads(pickle.dumps(settings))
    assert copy == settings
    assert copy.describe() == settings.describe()


@pytest.mark.parametrize("text", ["null", "", "None"])
def test_a_text_that_means_no_value(text: str) -> None:
    settings = load(scale_down_timeout_ms=text, http_port=text, upgrade_from=text)
    assert (settings.scale_down_timeout_ms, settings.http_port, settings.upgrade_from) == (None, None, None)


def test_alias_of_kafka_streams() -> None:
    assert load(num_standby_replicas="2").num_standby_tasks == 2


def test_unknown_name_is_refused_with_the_nearest_known() -> None:
    assert problem_of(num_worker=2) == "num.worker (flag): unknown setting; did you mean num.workers?"


def test_unknown_name_of_another_client_is_refused_with_what_to_write() -> None:
    assert "set num.workers (processes, not threads)" in problem_of(num_stream_threads=2)


def test_unknown_security_name_is_refused() -> None:
    assert "did you mean ssl.ca.location?" in problem_of(ssl_ca_locaton="ca.pem")


@pytest.mark.parametrize("name", ["consumer.group.id", "producer.transactional.id", "restore.consumer.fetch.min.bytes"])
def test_client_settings_that_the_runtime_sets_are_refused(name: str) -> None:
    assert problem_of(**{name.replace(".", "_"): "x"}).startswith(f"{name} (flag): ")


def test_all_problems_are_told_at_once_with_their_sources() -> None:
    """Someone with five mistakes fixes them in one go."""
    with pytest.raises(SettingsError) as caught:
        Settings.load(
            env={"KSTREAMS_NUM_WORKERS": "many", "KSTREAMS_COMMIT_INTERVAL": "5"},
            overrides={"processing.guarantee": "exactly_twice", "consumer.isolation.level": "x"},
        )
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in sorted(lines)] == [
        "application.id",
        "bootstrap.servers",
        "commit.interval (environment KSTREAMS_COMMIT_INTERVAL)",
        "consumer.isolation.level (flag)",
        "num.workers (environment KSTREAMS_NUM_WORKERS)",
        "processing.guarantee (flag)",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("application_id", "spaces are bad"),
        ("application_id", ".."),
        ("bootstrap_servers", "broker"),
        ("bootstrap_servers", "a:1,,b:2"),
        ("stream_imbalance_percentage", 0),
        ("upgrade_from", "2.0"),
        ("replication_factor", 0),
        ("heartbeat_interval_ms", 5000),
        ("commit_interval_ms", 10_000),
        ("http_port", 70_000),
        ("application_server", "http://host:80"),
        ("log_level", "loud"),
        ("log_level", "info,=debug"),
        ("security_protocol", "TLS"),
        ("sasl_password", "given, but the protocol has no SASL"),
        ("ssl_certificate_location", "cert.pem"),
    ],
)
def test_bad_values_are_refused_by_name(name: str, value: object) -> None:
    """Each is found when settings are read, not when a client or the broker stumbles over it."""
    assert name.split("_", maxsplit=1)[0] in problem_of(**{name: value})


def test_sasl_without_credentials_is_refused() -> None:
    problem = problem_of(security_protocol="SASL_SSL", sasl_mechanism="GSSAPI")
    assert "sasl.mechanisms (flag): 'GSSAPI' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512" in problem
    assert "sasl.password: required with security.protocol SASL_SSL" in problem


def test_describe_names_every_setting_and_where_it_comes_from() -> None:
    settings = Settings.load(env={"KSTREAMS_NUM_WORKERS": "2"}, overrides=REQUIRED)
    described = {line.name: line for line in settings.describe()}
    assert list(described) == known_names()
    assert (described["num.workers"].value, described["num.workers"].source) == (2, "environment KSTREAMS_NUM_WORKERS")
    assert described["application.id"].source == "flag"
    assert described["commit.interval.ms"].source == "default"
    assert all(line.description for line in described.values())


def test_secrets_are_shown_nowhere() -> None:
    settings = load(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="me",
        sasl_password="hunter2",
        producer_sasl_password="hunter3",
    )
    described = {line.name: line.value for line in settings.describe()}
    assert described["sasl.password"] == described["producer.sasl.password"] == HIDDEN
    assert described["sasl.username"] == "me"
    for shown in (repr(settings), str(settings), settings.model_dump_json(), repr(settings.describe())):
        assert "hunter" not in shown


def test_error_messages_show_no_secret() -> None:
    assert "hunter2" not in problem_of(sasl_password="hunter2", num_workers="x", sasl_passwort="hunter2")


def test_state_directory_has_a_home_of_its_own() -> None:
    """Not the system's temporary directory: what is there may be gone after a boot."""
    assert load().state_dir.is_absolute()
    assert load(state_dir="here").state_dir == Path("here")
