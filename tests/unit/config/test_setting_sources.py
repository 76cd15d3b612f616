"""Flags, environment, .toml and .properties files, and who wins."""

from pathlib import Path

import pytest

from kstreams_worker.config import Settings, known_names
from kstreams_worker.config.names import SECURITY_NAMES, environment_name
from kstreams_worker.config.sources import from_environment, from_file
from kstreams_worker.errors import SettingsError

REQUIRED = {"application.id": "orders", "bootstrap.servers": "broker:9092"}


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_flag_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "app.toml",
        "num.workers = 2\nnum.standby.tasks = 2\nacceptable.recovery.lag = 2\ncommit.interval.ms = 2",
    )
    settings = Settings.load(
        file,
        env={"KSTREAMS_NUM_WORKERS": "3", "KSTREAMS_NUM_STANDBY_TASKS": "3"},
        overrides=REQUIRED | {"num.workers": 4, "commit.interval.ms": None},
    )
    assert settings.num_workers == 4
    assert settings.num_standby_tasks == 3
    assert settings.acceptable_recovery_lag == 2
    assert settings.commit_interval_ms == 2, "a flag that was not given says nothing"
    assert settings.session_timeout_ms == 10_000


def test_an_alias_is_overridden_by_the_same_settings_other_name(tmp_path: Path) -> None:
    file = write(tmp_path, "app.properties", "num.standby.replicas=1")
    assert Settings.load(file, env={}, overrides=REQUIRED | {"num.standby.tasks": 2}).num_standby_tasks == 2


def test_one_source_that_names_a_setting_twice_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "app.properties", "num.standby.replicas=1\nnum.standby.tasks=2")
    with pytest.raises(SettingsError, match=r"num\.standby\.replicas and num\.standby\.tasks .* are the same setting"):
        Settings.load(file, env={}, overrides=REQUIRED)


def test_toml_nested_tables_and_quoted_names_are_dotted_names(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "app.toml",
        '"application.id" = "orders"\nbootstrap.servers = "broker:9092"\nlearner.partial.rebalance = false\n'
        "[consumer]\nfetch.min.bytes = 7\n[consumer.socket]\nkeepalive.enable = true\n",
    )
    settings = Settings.load(file, env={})
    assert settings.learner_partial_rebalance is False
    assert settings.client == {"consumer.fetch.min.bytes": "7", "consumer.socket.keepalive.enable": "true"}


def test_properties_as_java_writes_them(tmp_path: Path) -> None:
    """Comments, all three separators, continued lines and escapes."""
    file = write(
        tmp_path,
        "app.properties",
        "# a comment\n  ! another\n\napplication.id=orders\nbootstrap.servers : a\\:1,\\\n    b:2\n"
        "num.workers 3\nconsumer.client.rack = caf\\u00e9\\tx\\\\\nproducer.empty=\nadmin.a\\=b=c\n",
    )
    assert {name: given.value for name, given in from_file(file).items()} == {
        "application.id": "orders",
        "bootstrap.servers": "a:1,b:2",
        "num.workers": "3",
        "consumer.client.rack": "café\tx\\",
        "producer.empty": "",
        "admin.a=b": "c",
    }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("app.yaml", "", r"settings files end in \.toml or \.properties"),
        ("app.toml", "num.workers = ?", r"app\.toml: .*line 1"),
        ("app.properties", "=value", r"cannot read the line '=value'"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        from_file(write(tmp_path, name, text))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: No such file or directory"):
        from_file(tmp_path / "none.toml")


def test_every_setting_can_be_given_by_the_environment() -> None:
    """No two names share a variable, and each variable is read back as the name it stands for."""
    names = [*known_names(), *sorted(SECURITY_NAMES), "consumer.fetch.min.bytes", "restore.fetch.max.bytes"]
    environment = {environment_name(name): "x" for name in names}
    assert len(environment) == len(names)
    assert sorted(from_environment(environment, known_names())) == sorted(names)


def test_environment_of_others_is_left_alone() -> None:
    """Kubernetes' service variables may have our prefix, and our own tools have variables that are no settings."""
    environment = {
        "HOME": "/",
        "KSTREAMS_DEBUG": "1",
        "KSTREAMS_CONFIG": "app.toml",
        "KSTREAMS_TEST_ANYTHING": "1",
        "KSTREAMS_SERVICE_HOST": "10.0.0.1",
        "KSTREAMS_SERVICE_PORT_HTTP": "80",
        "KSTREAMS_PORT": "tcp://10.0.0.1:80",
        "KSTREAMS_PORT_80_TCP_ADDR": "10.0.0.1",
        "KSTREAMS_HTTP_PORT": "tcp://10.0.0.1:80",
    }
    assert from_environment(environment, known_names()) == {}
    assert from_environment({"KSTREAMS_HTTP_PORT": "80"}, known_names())["http.port"].value == "80"
