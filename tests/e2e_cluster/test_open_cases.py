"""The open cases of a sweep, which an interrupted sweep prints."""

from e2e.faults.open_cases import OpenCases, read_open_cases
from e2e.faults.plan import Case, Fault

CASE = Case(Fault.INTERNAL, ("apply deployments/poet", 1))


def test_open_cases_are_those_begun_and_not_ended(tmp_path):
    assert read_open_cases(tmp_path) == ""
    kills, errors = OpenCases(tmp_path, "kill"), OpenCases(tmp_path, "error")
    kills.begin("kill-case-000", "created")
    kills.end("kill-case-000")
    kills.begin("kill-case-001", "suspended")
    kills.begin("kill-case-001", "rotated")
    errors.begin("error-case-000", "rotated", [CASE])
    errors.end("error-case-001")
    assert read_open_cases(tmp_path) == (
        "  open: rotated, 500: apply deployments/poet #1 (error-case-000)\n  open: rotated (kill-case-001)\n"
    )
