"""The number of examples of the tests of properties.

`make check`, `make test` and `make test-cluster` try about a quarter of them, the same ones each time. `make test-all`,
single rings and pytest by itself try all, and choose other ones each time.
"""

from hypothesis import HealthCheck, settings

_LEAST = 5


def load_profiles() -> None:
    """Register the profile `gate`, and load the one that tries all examples."""
    # A slow machine is no failure.
    parent = settings(deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("all examples", parent)
    settings.register_profile("gate", parent, max_examples=25, derandomize=True)
    settings.load_profile("all examples")


def count_examples(whole: int) -> int:
    """Return the number of examples under the current profile.

    Args:
        whole: the number under the profile that tries all, where hypothesis itself tries 100. Under `gate` it is a
            quarter, but at least five.
    """
    return max(min(whole, _LEAST), whole * settings().max_examples // 100)
