"""The whole chain on one machine, for real: Spark fills the input, workers join, die and leave, Spark checks the output.

`play.py` tells what happens, in order. The rest are its props: `instance.py` runs `kstreams-worker run`, `cast.py` sees
who has which task, `watcher.py` measures the outputs' gaps, `feed.py` is Spark, `phases.py` and `timeline.py` are what
is printed.
"""
