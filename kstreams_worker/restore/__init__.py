"""The restore thread: keeps learners and standbys up to date, and brings active tasks to their changelog's end."""
