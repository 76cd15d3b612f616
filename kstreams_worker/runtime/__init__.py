"""Processes: the supervisor, the worker with its loop, and what they are made of."""
