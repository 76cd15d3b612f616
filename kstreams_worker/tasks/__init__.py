"""Tasks: their states, what an assignment asks of them, and what they say of themselves. Most of it is pure."""
