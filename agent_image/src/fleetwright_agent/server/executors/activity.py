"""Maps a frame to the activity that it reports, as text for the error message of a stalled task."""

from fleetwright_agent.protocol.frames import (
    CompactionEnd,
    CompactionStart,
    EarlierToolCall,
    Fallback,
    Frame,
    Reasoning,
    RetryWait,
    Text,
    ToolArtifact,
    ToolEnd,
    ToolOutput,
    ToolStart,
    Usage,
)


def activity(frame: Frame) -> str:
    match frame:
        case Text():
            return "the answer was being written"
        case Reasoning():
            return "the model was thinking"
        case ToolStart(name=name):
            return f"{name} was called"
        case ToolOutput(name=name):
            return f"{name} was running"
        case ToolEnd(name=name) | ToolArtifact(name=name):
            return f"{name} {'failed' if isinstance(frame, ToolEnd) and not frame.ok else 'answered'}"
        case Usage():
            return "a model call ended"
        case EarlierToolCall():
            return "the turn was resumed"
        case Fallback():
            return "another model took over"
        case RetryWait():
            return "a model call was waiting for its retry"
        case CompactionStart():
            return "the conversation was being compacted"
        case CompactionEnd():
            return "the conversation was compacted"
        case _:
            return ""
