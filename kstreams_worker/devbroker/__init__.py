"""A real Apache Kafka in KRaft mode, run from its published jars, without Docker: for development, the demo and tests.

It is not meant for production data: see `properties.py` for what it trades away to start quickly.
"""
