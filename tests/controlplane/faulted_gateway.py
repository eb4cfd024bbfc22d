"""A gateway in a process of its own that reaches the API server through the plain HTTP of a fault proxy.

It is the program `fleetwright-gateway` with other credentials: a pod always uses HTTPS.

    python -m tests.controlplane.faulted_gateway http://127.0.0.1:PORT
"""

import os
import sys
from dataclasses import replace

import uvloop

from fleetwright_gateway.__main__ import run
from fleetwright_gateway.settings import settings_from
from fleetwright_gateway.telemetry import logs
from fleetwright_kube.pod_login import pod_login


def main() -> None:
    logs.configure("INFO")
    settings = settings_from(os.environ)

    def login():
        return replace(pod_login(os.environ, folder=settings.service_account), server=sys.argv[1])

    uvloop.run(run(settings, login=login))


if __name__ == "__main__":
    main()
