"""Settings: dotted Kafka names, from flags, the environment (`KSTREAMS_...`), a file (.toml or .properties) or code."""

from kstreams_worker.config.clients import ClientKind
from kstreams_worker.config.model import HIDDEN, SettingDescription, Settings, known_names

__all__ = ["HIDDEN", "ClientKind", "SettingDescription", "Settings", "known_names"]
