"""Of a client's complaints the one that tells most is passed on, without what only its makers want to know."""

from __future__ import annotations

from confluent_kafka import KafkaError

from kstreams_worker.io.troubles import Troubles

REFUSED = KafkaError(
    KafkaError._AUTHENTICATION,
    "sasl_ssl://kafka:9093/bootstrap: SASL authentication error: Invalid username or password (after 314ms in state AUTH_REQ)",
)
NOBODY = KafkaError(
    KafkaError._TRANSPORT,
    "kafka:9093/1: Connect to ipv4#10.0.0.1:9093 failed: Connection refused (after 0ms in state CONNECT, 2 identical error(s))",
)
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


def after(*errors: KafkaError) -> Troubles:
    troubles = Troubles("kafka:9093")
    for error in errors:
        troubles.heard(error)
    return troubles


def test_the_reason_is_told_with_the_settings_to_look_at() -> None:
    told = after(REFUSED).unreachable("timed out")
    assert told.reason == "cannot reach Kafka at kafka:9093: SASL authentication error: Invalid username or password"
    assert told.next_step == "check security.protocol, sasl.mechanisms, sasl.username and sasl.password"
    assert str(told) == f"{told.reason}; {told.next_step}"


def test_that_all_are_down_says_less_than_why() -> None:
    told = after(NOBODY, ALL_DOWN).unreachable("timed out")
    assert told.reason.endswith(": Connect to ipv4#10.0.0.1:9093 failed: Connection refused")
    assert told.next_step == "check bootstrap.servers and that the brokers are up"


def test_a_refusal_outweighs_what_comes_after_it() -> None:
    """One broker refuses, another is down: waiting for that one would not help."""
    troubles = after(REFUSED, NOBODY, ALL_DOWN)
    assert troubles.are_hopeless
    assert "Invalid username" in troubles.unreachable("timed out").reason


def test_brokers_that_are_not_there_yet_are_worth_waiting_for() -> None:
    assert not after(NOBODY, ALL_DOWN).are_hopeless


def test_a_connection_that_ends_in_the_middle_of_tls_is_about_tls() -> None:
    """The client takes it for a matter of transport, and tells of it in two ways, of which one has a guess."""
    text = "ssl://kafka:9093/bootstrap: SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?"
    more = KafkaError(KafkaError._TRANSPORT, text)
    less = KafkaError(KafkaError._TRANSPORT, "ssl://kafka:9093/bootstrap: Disconnected: SSL connection closed by peer")
    for errors in ((more, less), (less, more)):
        told = after(*errors).unreachable("timed out")
        assert "PLAINTEXT broker listener?" in told.reason
        assert "ssl.ca.location" in told.next_step


def test_silence_may_mean_that_the_listener_expects_tls() -> None:
    told = after(ALL_DOWN).unreachable("timed out")
    assert told.reason == "cannot reach Kafka at kafka:9093: timed out"
    assert "security.protocol" in told.next_step


def test_what_is_over_is_forgotten() -> None:
    troubles = after(REFUSED)
    troubles.forget()
    assert not troubles.are_hopeless
