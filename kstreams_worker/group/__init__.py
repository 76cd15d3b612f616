"""The group plane: membership in the consumer group with protocol type "stream". The only package that imports kafka."""
