"""The reasons why a caller could not be identified."""


class IdentityError(Exception):
    status = 401
    retry_seconds = 0

    def __init__(self, reason: str, sentence: str) -> None:
        """Args: `reason` is the label of the metric; `sentence` is what the caller reads."""
        super().__init__(sentence)
        self.reason = reason
        self.sentence = sentence


class Unauthenticated(IdentityError):  # noqa: N818 - named as in HTTP
    """The caller has no valid credential. It does not learn why a credential was refused."""


class TooManyReviews(IdentityError):  # noqa: N818 - a temporary state
    """The gateway may not ask the API server about more tokens at the moment."""

    status = 429
    retry_seconds = 1

    def __init__(self) -> None:
        super().__init__("reviews", "Too many unknown credentials arrive at the moment. Send the request again.")


class ReviewUnavailable(IdentityError):  # noqa: N818 - a temporary state
    """The API server did not answer. Callers are refused, because nothing is known about them."""

    status = 503
    retry_seconds = 2

    def __init__(self) -> None:
        super().__init__(
            "unavailable", "The API server cannot check credentials at the moment. Send the request again."
        )
