"""Topologies to read and to run, and the demo (`python -m examples.demo`)."""
