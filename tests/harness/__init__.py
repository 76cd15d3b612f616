"""What the tests with real processes share: instances run by the real command, a steady input, and a check of the output.

Nothing here sleeps to let something happen: every wait is for a condition, with a deadline that only a broken run reaches.
"""
