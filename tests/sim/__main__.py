"""Random schedules of the simulator: `python -m tests.sim --help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does

from sim.campaign import app

if __name__ == "__main__":
    app()
