"""A clock for code that sleeps between its steps."""


class SleepingClock:
    """A clock that advances only while the code sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.limit = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > self.limit:
            raise TimeoutError(f"the code slept for more than {self.limit:.0f} s")
