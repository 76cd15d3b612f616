"""`Settings`: all areas in one frozen model, and the one place where mistakes in settings are collected and reported.

Whatever is wrong, in whatever source, is found at once: one SettingsError has a line for each setting, which names it and
where it was written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import (
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from kstreams_worker.config import clients, sources
from kstreams_worker.config.areas import (
    GroupSettings,
    KafkaSettings,
    ProcessingSettings,
    ServiceSettings,
    StateSettings,
)
from kstreams_worker.config.names import (
    canonical_name,
    client_problem,
    dotted_name,
    environment_name,
    is_client_setting,
    is_secret,
    unknown_problem,
)
from kstreams_worker.errors import SettingsError

HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True)
class SettingDescription:
    """One line of `kstreams-worker config`: an effective value and where it comes from, never a secret's value."""

    name: str
    value: Any
    source: str
    description: str


class Settings(ServiceSettings, StateSettings, ProcessingSettings, GroupSettings, KafkaSettings):
    """All settings of an instance. Frozen and picklable: the supervisor hands them to its workers.

    Build it by attribute (`Settings(application_id=..., bootstrap_servers=...)`) or by `load`. Raises SettingsError.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=dotted_name, populate_by_name=True, hide_input_in_errors=True
    )

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def load(
        cls,
        file: Path | str | None = None,
        env: Mapping[str, str] = os.environ,
        overrides: Mapping[str, Any] | None = None,
    ) -> Settings:
        """Settings from flags (`overrides`, dotted names), the environment, a file and defaults, in this order."""
        given = sources.merge(
            sources.from_overrides(overrides or {}),
            sources.from_environment(env, known_names()),
            sources.from_file(Path(file)) if file is not None else {},
        )
        return cls.model_validate(
            {name: item.value for name, item in given.items()},
            context={name: item.source for name, item in given.items()},
        )

    @model_validator(mode="wrap")
    @classmethod
    def _report_all_problems(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        if not isinstance(data, Mapping):
            return handler(data)
        given_sources: Mapping[str, str] = info.context or {}
        problems: dict[str, str] = {}
        own, client = _separate(data, problems)
        problems.update(clients.security_problems(client))
        try:
            settings = handler({**own, "client": client})
        except ValidationError as error:
            problems.update(_problems_of(error))
            settings = None
        if settings is not None:
            problems.update(_contradictions(settings))
        if problems:
            raise SettingsError(_report(problems, given_sources))
        assert settings is not None  # otherwise there were problems
        settings._sources.update(given_sources)
        return settings

    def client_config(self, kind: clients.ClientKind) -> dict[str, str | int]:
        """Servers, security and the overrides of one kind of client, in librdkafka's names."""
        return clients.data_plane_config(self.bootstrap_servers, self.client, kind)

    def group_plane_config(self) -> dict[str, Any]:
        """Servers and security in kafka-python's names. Raises SettingsError where a certificate cannot be used."""
        return clients.group_plane_config(self.bootstrap_servers, self.client)

    def describe(self) -> list[SettingDescription]:
        """Every effective setting, in the order of the areas, then those passed on to clients."""
        described = [
            SettingDescription(
                name := dotted_name(attribute),
                _shown(name, getattr(self, attribute)),
                self._sources.get(name, "code" if attribute in self.model_fields_set else "default"),
                field.description or "",
            )
            for attribute, field in type(self).model_fields.items()
            if attribute != "client"
        ]
        described += [
            SettingDescription(name, _shown(name, value), self._sources.get(name, "code"), "passed on to clients")
            for name, value in sorted(self.client.items())
        ]
        return described


def known_names() -> list[str]:
    """The dotted names of all settings that the worker itself reads."""
    return [dotted_name(attribute) for attribute in Settings.model_fields if attribute != "client"]


def _shown(name: str, value: Any) -> Any:
    if is_secret(name):
        return HIDDEN
    return str(value) if isinstance(value, Path) else value


def _separate(data: Mapping[str, Any], problems: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Split what was given into the worker's own settings and those passed on to clients, under canonical names."""
    own: dict[str, Any] = {}
    client: dict[str, str] = {}
    given_client = data.get("client") or {}
    given = [(name, value) for name, value in data.items() if name != "client"] + list(given_client.items())
    for given_name, value in given:
        name = canonical_name(given_name)
        if name in known_names() or name in Settings.model_fields:
            own[dotted_name(name)] = value
        elif not is_client_setting(name):
            problems[given_name] = unknown_problem(name, known_names())
        elif (problem := client_problem(name)) is not None:
            problems[given_name] = problem
        else:
            client[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return own, client


def _problems_of(error: ValidationError) -> dict[str, str]:
    problems: dict[str, str] = {}
    for item in error.errors(include_url=False, include_input=True):
        name = dotted_name(str(item["loc"][0]))
        if item["type"] == "default_factory_not_called":  # a default made from a value that is wrong itself
            continue
        if item["type"] == "missing":
            flag = "--" + name.replace(".", "-")
            problems[name] = f"required; give {flag}, set {environment_name(name)}, or write it in the settings file"
        else:
            message = item["msg"].removeprefix("Value error, ")
            problems[name] = f"{item['input']!r}: {message[0].lower()}{message[1:]}"
    return problems


def _contradictions(settings: Settings) -> dict[str, str]:
    problems: dict[str, str] = {}
    if settings.replication_factor < 1 and settings.replication_factor != -1:
        problems["replication.factor"] = (
            f"{settings.replication_factor} is neither a number of replicas nor -1, the brokers' default"
        )
    if settings.heartbeat_interval_ms * 3 > settings.session_timeout_ms:
        problems["heartbeat.interval.ms"] = (
            f"{settings.heartbeat_interval_ms} must be at most a third of session.timeout.ms "
            f"({settings.session_timeout_ms})"
        )
    if settings.commit_interval_ms >= settings.transaction_timeout_ms:
        problems["commit.interval.ms"] = (
            f"{settings.commit_interval_ms} must be below transaction.timeout.ms ({settings.transaction_timeout_ms}): "
            "a transaction stays open from one commit to the next"
        )
    return problems


def _report(problems: Mapping[str, str], given_sources: Mapping[str, str]) -> str:
    lines = []
    for name, problem in problems.items():
        source = given_sources.get(canonical_name(name))
        lines.append(f"{name} ({source}): {problem}" if source else f"{name}: {problem}")
    return "\n".join(lines)
