"""`python -m e2e.faults [--share 0.1]`: run the sweep, print its failures with the differences, and a summary line."""

import argparse
import asyncio
import sys
import time
from collections import Counter

from e2e.cluster import binaries
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.parts import CONTROL_PLANE
from e2e.cluster.progress import CANNOT_RUN
from e2e.cluster.run_folder import run_folder
from e2e.faults.cases import Findings
from e2e.faults.open_cases import read_open_cases
from e2e.faults.operator_group import Place
from e2e.faults.sweep import sweep

_CONTROLLERS = (
    (
        "--controllers=deployment-controller,replicaset-controller,garbage-collector-controller,"
        "namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller"
    ),
    "--kube-api-qps=2000",
    "--kube-api-burst=4000",
    "--concurrent-deployment-syncs=20",
    "--concurrent-replicaset-syncs=20",
)
"""The controllers must not delay the sweep by their own rate limits."""
_REQUIRED_SHARE = 0.9
_ALLOWED_MISSES = 3
"""The number of cases of each fault that may affect no write. `_REQUIRED_SHARE` may permit more.

If two watches race, the operator does not repeat every write of the reference.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.faults", description=__doc__)
    parser.add_argument("--share", type=_parse_share, default=1.0, help="the share of the cases to run, up to 1")
    arguments = parser.parse_args()
    if obstacle := binaries.obstacle((*CONTROL_PLANE, "helm")):
        print(obstacle)
        return CANNOT_RUN
    started = time.monotonic()
    with run_folder("fleetwright-sweep-", describe_work=read_open_cases) as folder:
        with ControlPlane(folder / "plane", controllers=_CONTROLLERS, roomy=True) as plane:
            place = Place(plane.server, plane.token, plane.ca, folder)
            findings = asyncio.run(sweep(plane, place, share=arguments.share))
        return _print_summary(findings, time.monotonic() - started)


def _parse_share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of the cases; use a number above 0 and at most 1")
    return share


def _print_summary(findings: Findings, seconds: float) -> int:
    verdicts = findings.verdicts
    for verdict in verdicts:
        if verdict.problem:
            print(f"\n{verdict.step}, {verdict.case} ({verdict.space}): {verdict.problem}")
    for complaint in findings.complaints:
        print(f"\n{complaint}")
    struck = [verdict for verdict in verdicts if verdict.struck]
    wanted, met = (Counter(verdict.case.fault for verdict in some) for some in (verdicts, struck))
    for fault, number in sorted(wanted.items()):
        print(f"  {fault:<14} {number:>4} cases")
    if missed := len(verdicts) - len(struck):
        print(
            f"  {missed} injected no fault, because their write or event did not occur in this run; they do not count"
        )
        for verdict in verdicts:
            if not verdict.struck:
                print(f"    {verdict.step}, {verdict.case} ({verdict.space})")
    if findings.restarts:
        print(f"  {findings.restarts} operators exited and were restarted")
    good = sum(not verdict.problem for verdict in struck)
    print(f"{good} of {len(struck)} converged in {seconds:.0f} s")
    too_few = [
        fault
        for fault, number in wanted.items()
        if met[fault] < min(_REQUIRED_SHARE * number, number - _ALLOWED_MISSES)
    ]
    if too_few:
        print(
            f"fewer than {_REQUIRED_SHARE:.0%} of the cases of {', '.join(too_few)} injected their fault; "
            "repeat the sweep, or check the reference run"
        )
    return int(any(verdict.problem for verdict in verdicts) or bool(findings.complaints or too_few) or not struck)


if __name__ == "__main__":
    sys.exit(main())
