"""The summary of a run: a line for each ring, the unstable tests with both outputs, and the counts."""

from collections.abc import Mapping, Sequence

from tests.rings.runner import MOST_UNSTABLE, Result, UnstableTest

_LONGEST_FAILURE = 60
_SHOWN_SKIPPED = 20


def has_failures(results: Sequence[Result], skipped: Mapping[str, Sequence[str]], *, in_ci: bool) -> bool:
    return count_failures(results, in_ci=in_ci, unstable_before=count_unstable(skipped)) > 0


def count_unstable(skipped: Mapping[str, Sequence[str]]) -> int:
    """Return the number of unstable tests of the rings that are green on this tree."""
    return sum(len(tests) for tests in skipped.values())


def count_failures(results: Sequence[Result], *, in_ci: bool, unstable_before: int = 0) -> int:
    """Return the number of failures.

    Unstable tests are failures if there are too many, together with the `unstable_before` of rings that were skipped
    because they are green on this tree. In CI, rings and tests that could not run are failures too.
    """
    missing = sum(len(result.skipped) + result.could_not_run for result in results)
    failed = sum(result.failed for result in results if not result.could_not_run)
    unstable = len(_list_unstable_tests(results)) + unstable_before
    return failed + (missing if in_ci else 0) + (unstable if unstable > MOST_UNSTABLE else 0)


def format_summary(results: Sequence[Result], skipped: Mapping[str, Sequence[str]], *, in_ci: bool) -> list[str]:
    """Return the lines of the summary. `skipped` are rings that are green on this tree, with their unstable tests.

    The last line counts tests: "11 passed, 0 failed".
    """
    unstable = _list_unstable_tests(results)
    lines = [line for found in unstable for line in _format_unstable_test(found)]
    lines.append("\n=== summary")
    for name, unstable_before in skipped.items():
        listed = f", unstable: {', '.join(unstable_before)}" if unstable_before else ""
        lines.append(f"  {name:<13} green on this tree already{listed}")
    for result in results:
        lines += [
            _format_ring(result),
            *(f"    {test} could not run: {why}" for test, why in _list_skip_reasons(result)),
            *([f"    and {more} more"] if (more := len(result.skipped) - _SHOWN_SKIPPED) > 0 else []),
        ]
    if unstable:
        lines.append(f"unstable: {', '.join(found.test for found in unstable)}")
    before = count_unstable(skipped)
    if (total := len(unstable) + before) > MOST_UNSTABLE:
        lines.append(f"red, because {total} tests are unstable and at most {MOST_UNSTABLE} may be")
    passed = sum(result.passed for result in results)
    lines.append(f"{passed} passed, {count_failures(results, in_ci=in_ci, unstable_before=before)} failed")
    return lines


def _list_unstable_tests(results: Sequence[Result]) -> list[UnstableTest]:
    return [found for result in results for found in result.unstable]


def _format_ring(result: Result) -> str:
    if result.could_not_run:
        return f"  {result.ring.name:<13} could not run: {result.reason}"
    counts = [f"{result.passed} passed"]
    if result.failed:
        counts.append(f"{result.failed} failed")
    if result.skipped:
        counts.append(f"{len(result.skipped)} could not run")
    if result.unstable:
        counts.append(f"{len(result.unstable)} unstable")
    word = "passed" if result.is_green else "FAILED"
    reason = f": {result.reason}" if result.reason else ""
    return f"  {result.ring.name:<13} {word} in {result.seconds:.0f} s, {', '.join(counts)}{reason}"


def _list_skip_reasons(result: Result) -> list[tuple[str, str]]:
    """Return each skipped test with the last line of its reason. All tests of a module often have the same one."""
    return [(test, text.strip().splitlines()[-1]) for test, text in list(result.skipped.items())[:_SHOWN_SKIPPED]]


def _format_unstable_test(found: UnstableTest) -> list[str]:
    failure = found.failure.splitlines()[-_LONGEST_FAILURE:]
    return [
        f"\n=== unstable: {found.test} failed first:",
        *failure,
        "=== and passed when it was repeated alone:",
        *found.repetition.splitlines()[-5:],
    ]
