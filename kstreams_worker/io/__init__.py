"""The data plane's clients. The only package that imports confluent_kafka."""
