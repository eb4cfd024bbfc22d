"""`python -m tests.faults.wrong_clock SECONDS`: the operator, on a machine whose time of day is wrong by that much."""

import asyncio
import os
import sys
from datetime import timedelta

from fleetwright_operator import logs
from fleetwright_operator.__main__ import run
from fleetwright_operator.moments import time_of_day
from fleetwright_operator.settings import settings_from

if __name__ == "__main__":
    wrong_by = timedelta(seconds=int(sys.argv[1]))
    logs.configure("INFO")
    asyncio.run(run(settings_from(os.environ), today=lambda: time_of_day() + wrong_by))
