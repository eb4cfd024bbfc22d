"""`python -m tests.faults.wrong_clock FILE` runs the operator on a machine whose time of day is wrong.

The file holds the current offset in seconds, so that the clock may jump under a running operator.
"""

import asyncio
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

from fleetwright_kube.timestamps import time_of_day
from fleetwright_operator.__main__ import run
from fleetwright_operator.environment import settings_from
from fleetwright_operator.manager import logs


def _wrong(file: Path) -> datetime:
    return time_of_day() + timedelta(seconds=int(file.read_text()))


if __name__ == "__main__":
    wrong_by = Path(sys.argv[1])
    logs.configure("INFO")
    asyncio.run(run(settings_from(os.environ), today=lambda: _wrong(wrong_by)))
