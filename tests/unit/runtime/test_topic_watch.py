"""The leader notices topics that appear or grow after its last assignment, also right after it."""

from kstreams_worker import StreamsBuilder
from kstreams_worker.group.leader import TopicsMissing
from kstreams_worker.io.admin import TopicSpec
from kstreams_worker.runtime.topic_watch import TopicWatch
from kstreams_worker.runtime.topics import TopologyTopics


class Brokers:
    """Topics and their partition counts."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts

    def partition_counts(self, topics: list[str]) -> dict[str, int]:
        return {topic: self.counts[topic] for topic in topics if topic in self.counts}

    def create_topics(self, specs: list[TopicSpec]) -> None:
        self.counts.update({spec.name: spec.partitions for spec in specs})

    def topic_configs(self, topics: list[str], key: str) -> dict[str, str]:
        return dict.fromkeys(topics, "delete")


class Membership:
    """The leader."""

    is_leader = True

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def request_rejoin(self, reason: str) -> None:
        self.reasons.append(reason)


def watched(brokers: Brokers, **more: list[str]) -> tuple[TopologyTopics, TopicWatch, Membership]:
    builder = StreamsBuilder()
    builder.stream("in").repartition(name="again").to("out")
    topics, membership = TopologyTopics(builder.build(), "app", brokers, 1, **more), Membership()
    return topics, TopicWatch(topics, membership), membership


def assign(topics: TopologyTopics) -> bool:
    """What the leader does in a round; whether nothing was missing."""
    try:
        topics.tasks()
    except TopicsMissing:
        return False
    return True


def test_a_topic_that_appears_before_the_first_look_is_noticed_once() -> None:
    brokers = Brokers(out=1)
    topics, watch, membership = watched(brokers)
    assert not assign(topics)
    brokers.counts["in"] = 2
    watch.look()
    watch.look()
    assert membership.reasons == ["topics changed: in"]
    assert assign(topics)
    watch.look()
    assert len(membership.reasons) == 1, "a repartition topic that the leader made is no change"
    brokers.counts["in"] = 4
    watch.look()
    assert membership.reasons[1:] == ["topics changed: in"]


def test_nothing_is_asked_for_before_the_first_assignment() -> None:
    _, watch, membership = watched(Brokers(**{"in": 1, "out": 1}))
    watch.look()
    assert membership.reasons == []


def test_other_topics_are_waited_for_like_those_of_the_topology() -> None:
    brokers = Brokers(**{"in": 1, "out": 1})
    topics, watch, membership = watched(brokers, other_topics=["letters"])
    assert not assign(topics)
    brokers.counts["letters"] = 1
    watch.look()
    assert membership.reasons == ["topics changed: letters"]
    assert assign(topics)
