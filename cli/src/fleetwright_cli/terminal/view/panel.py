"""The live rows below the text: the open ask, and the status line. Pure apart from the current time."""

from datetime import datetime

from fleetwright_cli.safe_text import cells, one_line
from fleetwright_cli.terminal.model.forms import FormProgress
from fleetwright_cli.terminal.model.state import ChatState
from fleetwright_cli.terminal.model.todos import open_todos
from fleetwright_cli.terminal.model.values import PendingAsk


def ask_lines(
    asks: tuple[PendingAsk, ...], chosen: int, form: FormProgress | None, width: int, *, now: datetime | None = None
) -> list[str]:
    """Return the rows for the open asks, at most three. Args: `now` is the current time, which is known when unset."""
    if form is not None and form.current is not None:
        place = f"{form.at + 1}/{len(form.fields)}"
        return [one_line(f"? {place} {form.current.prompt}", width), "  type the value and press Enter"]
    if not asks:
        return []
    ask = asks[min(chosen, len(asks) - 1)]
    if not ask.is_approval:
        return [one_line(f"? {ask.prompt}", width), "  type the answer and press Enter"]
    number = f"{chosen + 1}/{len(asks)} " if len(asks) > 1 else ""
    until = _until(ask.expires, now or datetime.now().astimezone())
    detail = "" if "\n" in ask.detail else f"  {ask.detail}"
    head = f"? {number}{ask.title or f'Run {ask.tool}?'}"
    room = max(10, width - len(head) - len(until))
    lines = [one_line(f"{head}{one_line(detail, room) and '  ' + one_line(detail, room)}{until}", width)]
    if ask.reviewed:
        return [*lines, one_line("  other people decide this call  [d] details", width)]
    grant = f"  [a] always: {one_line(ask.grants[0].title, 40)}" if ask.grants else ""
    others = f"  [1-{min(9, len(asks))}] other" if len(asks) > 1 else ""
    return [*lines, one_line(f"  [y] approve{grant}  [n] decline  [d] details{others}", width)]


def _until(expires: str, now: datetime) -> str:
    try:
        at = datetime.fromisoformat(expires).astimezone(now.tzinfo)
    except (ValueError, OverflowError):
        return ""
    days = (at.date() - now.date()).days
    day = {0: "", 1: "tomorrow "}.get(days, f"{at:%Y-%m-%d} ")
    return f"  until {day}{at:%H:%M}"


def status_text(title: str, state: ChatState | None, notice: str, width: int) -> str:
    """Return the status line."""
    if notice:
        return one_line(notice, width)
    if state is None:
        return one_line(f"{title} · connecting", width)
    current = state.current
    phase = "connection lost" if not state.connected else current.phase.value if current else "ready"
    if state.unsent and current is None:
        phase = "sending"
    todos = open_todos(state.todos)
    more = [f"{todos} todos"] if todos else []
    more += [f"{len(state.queued)} queued"] if state.queued else []
    model = state.context.model if state.context else next(iter(state.cost.models[-1:]), "")
    details = [f"model {model or '–'}", f"ctx {_context(state)}", _cost(state)]
    while details and cells(" · ".join([title, *details, phase, *more])) > width:
        details.pop(0)
    return one_line(" · ".join([title, *details, phase, *more]), width)


def _context(state: ChatState) -> str:
    use = state.context
    if use is None or not use.window_tokens:
        return "–"
    compactions = f" ({use.compactions} compactions)" if use.compactions else ""
    return f"{100 * use.prompt_tokens // use.window_tokens} % of {use.window_tokens // 1000}k{compactions}"


def _cost(state: ChatState) -> str:
    cost = state.cost
    if cost.usd is not None:
        return f"{cost.usd:.4f} USD"
    return f"{cost.input_tokens + cost.output_tokens} tokens" if cost.input_tokens else "no cost"
