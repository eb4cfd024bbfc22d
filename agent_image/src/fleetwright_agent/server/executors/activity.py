"""What a frame says has just happened, for whoever asks why nothing does any more."""

from fleetwright_agent.protocol.frames import (
    Called,
    CompactionEnd,
    CompactionStart,
    Fallback,
    Frame,
    Reasoning,
    Text,
    ToolEnd,
    ToolStart,
    Usage,
    Waiting,
)


def activity(frame: Frame) -> str:
    match frame:
        case Text():
            return "the answer was being written"
        case Reasoning():
            return "the model was thinking"
        case ToolStart(name=name):
            return f"{name} was called"
        case ToolEnd(name=name):
            return f"{name} {'answered' if frame.ok else 'failed'}"
        case Usage():
            return "a call of the model ended"
        case Called():
            return "the turn was taken up again"
        case Fallback():
            return "another model took over"
        case Waiting():
            return "a call of the model waited to be made again"
        case CompactionStart():
            return "the conversation was being compacted"
        case CompactionEnd():
            return "the conversation was compacted"
        case _:
            return ""
