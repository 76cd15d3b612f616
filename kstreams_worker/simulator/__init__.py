"""A group in simulated time: the real leader, assignor, codec and state tables, on a simulated broker, network and disk.

Discrete events, one thread, no clock but its own: the same seed gives the same history. Whoever wants to know what happens
passes an `Observer`; the random schedules of the tests check every round that way, and `planning` measures with it.
"""
