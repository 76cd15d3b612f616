"""The control topic `<application.id>-control`: what a group tells its workers beside its rounds.

Orders to leave, nudges, the leader's memory, routing for queries. All of it is advice: a group whose control topic is
missing, unreadable or full of garbage works on, at the speed of heartbeats. Nothing here touches the processing path.
"""


def control_topic(application_id: str) -> str:
    """The name of an application's control topic."""
    return f"{application_id}-control"
