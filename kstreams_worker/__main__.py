"""`python -m kstreams_worker` is the command `kstreams-worker`."""

from kstreams_worker.cli import main

if __name__ == "__main__":
    main()
