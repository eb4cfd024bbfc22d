"""The reasons of failed model calls and compactions. They are labels of metrics, and callers and logs get them too.

The layer of telemetry declares them, because the metrics start with a series for each, and the turn reports them.
"""

from typing import Final, Literal, get_args

FallbackReason = Literal[
    "model_ca_unusable",
    "model_error",
    "model_forbidden",
    "model_key_missing",
    "model_malformed_tool_call",
    "model_not_found",
    "model_rate_limited",
    "model_timeout",
    "model_unauthorized",
    "model_unpaid",
    "model_unreachable",
]
"""Failures of a model call after which a fallback model may answer."""
ModelFailureReason = Literal[FallbackReason, "model_context_overflow", "model_refused_answer", "model_refused_request"]
"""Every failure of a model call."""
CompactionFailureReason = Literal[
    "budget",
    "empty",
    "inflated",
    "model_error",
    "no_gain",
    "nothing_to_cut",
    "open_fence",
    "pins_lost",
    "request_lost",
    "timeout",
    "too_long",
    "torn_pair",
]
"""Every reason for which a compaction changes nothing."""
FALLBACK_REASONS: Final[tuple[FallbackReason, ...]] = get_args(FallbackReason)
MODEL_FAILURE_REASONS: Final[tuple[ModelFailureReason, ...]] = get_args(ModelFailureReason)
COMPACTION_FAILURE_REASONS: Final[tuple[CompactionFailureReason, ...]] = get_args(CompactionFailureReason)
