"""For tests of topologies: `from kstreams_worker.testing.driver import TopologyTestDriver`."""
