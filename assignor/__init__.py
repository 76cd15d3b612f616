"""Who runs, learns and stands by for what: pure functions from a round's snapshot to its assignment.

Standard library only. Nothing here imports a Kafka client, starts a thread or reads a clock.
"""
