"""PySpark jobs that fill input topics and verify outputs; the only package that imports `pyspark`.

`produce` writes orders (generated from a seed, or from files) to a topic; `verify` recomputes what a topology should have
written, from its input, and says what is missing, extra, doubled or wrong. Both take a Spark session of `session`.
"""
