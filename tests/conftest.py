"""Fixtures of all tests: `kafka` and `kafka_cluster` come from the plugin that users of the package get too."""

pytest_plugins = ["kstreams_worker.testing.fixtures"]
