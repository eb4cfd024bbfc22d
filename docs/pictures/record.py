"""Records the pictures of the terminal anew: `make pictures`.

A real fleet runs on this machine, and `fleetwright chat` runs on a pseudo-terminal. The pictures are the screens that
an emulated terminal shows.
"""

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from io import StringIO
from itertools import groupby
from pathlib import Path

from pyte.screens import Char
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text
from tests.cli.terminal.screen import PtyScreen, on_screen
from tests.support.cli.coder import ScriptedCoder, begin_checkout, coding_fleet
from tests.support.cli.fleet import Fleet, environment, running_fleet
from tests.support.cli.kubectl import install_kubectl, with_kubectl

_HERE = Path(__file__).parent
_COLUMNS, _ROWS = 96, 26
_WIDE = 176
"""The columns of a picture with tables."""
_COLOURS = {"brown": "yellow", "brightblack": "bright_black", "brightbrown": "bright_yellow", "default": "default"}
# The fonts of the reader's machine: a picture in a document must load nothing from elsewhere.
_FORMAT = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
_APPROVAL_SECONDS = 1.0
"""Longer than the time for which an approval must have been visible before a key decides it."""
_REPAIR = [
    ("read_file", {"path": "shop.py"}),
    ("edit_file", {"path": "shop.py", "old_text": "price + count", "new_text": "price * count"}),
    ("bash", {"command": "python3 -m unittest"}),
]
_ANSWER = """\
Order **A-1002** is a desk lamp for 39.50 USD. It was delivered on 12 November and reported broken.

Goods that arrived broken are refunded in full:

1. I refund the 39.50 USD.
2. The customer keeps the lamp.

"""


def chat(fleet: Fleet, screen: PtyScreen) -> None:
    """Look up an order, and wait for the approval of a refund."""
    _ready(screen)
    fleet.model.scripts["What is our rule"] = [_ANSWER]
    _type(screen, "Look up order A-1002.")
    screen.wait("desk lamp")
    _ready(screen)
    _type(screen, "What is our rule for it?")
    screen.wait("keeps the lamp")
    _ready(screen)
    _type(screen, "Refund order A-1002.")
    screen.wait("[y] approve")


def headless(screen: PtyScreen) -> None:
    """Run one prompt in a shell."""
    for command in (
        "fleetwright run desk 'Look up order A-1002.'",
        "fleetwright run desk 'Refund order A-1002.'; echo \"exit code $?\"",
    ):
        _prompt(screen)
        _type(screen, command)
        screen.wait("USD" if "Look" in command else "\nexit code 3")


def workspace(screen: PtyScreen) -> None:
    """Repair a failing test: an edit waits for an approval, and then the test runs."""
    _ready(screen, "coder")
    _type(screen, "The test of this shop fails. Repair it.")
    for asked in ("price * count", "unittest"):
        screen.wait_until(
            lambda asked=asked: asked in screen.text and "[y] approve" in "\n".join(screen.lines),
            f"the text has {asked!r}, and the screen offers to approve",
        )
        time.sleep(_APPROVAL_SECONDS)
        screen.type("y")
    screen.wait("passes now")
    _ready(screen, "coder")


def kubectl(screen: PtyScreen) -> None:
    """Look at an agent with three commands of the plugin."""
    for command, wanted in (
        ("tasks desk", "Look up order A-1002."),
        ("cost desk --by caller,model", "total"),
        ("audit verify desk", "The audit trail is intact."),
    ):
        _prompt(screen)
        _type(screen, f"kubectl fleetwright {command}")
        screen.wait(wanted)
    _prompt(screen)


def _prompt(screen: PtyScreen) -> None:
    screen.wait_until(lambda: "$" in [line for line in screen.lines if line][-1:], "the last line is the prompt `$`")


def _type(screen: PtyScreen, text: str) -> None:
    screen.type(f"{text}\r")


def _ready(screen: PtyScreen, agent: str = "desk") -> None:
    screen.wait_until(
        lambda: any(line.startswith(f"{agent} · ") and line.endswith("· ready") for line in screen.lines),
        f"a line begins with {agent!r} and ends with `ready`",
    )


def picture(screen: PtyScreen, title: str) -> str:
    """Return the screen as SVG, without the empty rows at its end."""
    time.sleep(0.5)
    rows = [_row(screen, y) for y in range(_ROWS)]
    while rows and not rows[-1].plain.strip():
        rows.pop()
    console = Console(
        record=True, width=screen.screen.columns, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    for row in rows:
        console.print(row, no_wrap=True, overflow="crop")
    return console.export_svg(title=title, theme=MONOKAI, unique_id=title.replace(" ", "-"), code_format=_FORMAT)


def _row(screen: PtyScreen, y: int) -> Text:
    cells = [screen.screen.buffer[y][x] for x in range(screen.screen.columns)]
    row = Text()
    for style, run in groupby(cells, key=_style):
        row.append("".join(cell.data or " " for cell in run), style)
    row.rstrip()
    return row


def _style(cell: Char) -> Style:
    return Style(color=_colour(cell.fg), bold=cell.bold, italic=cell.italics, reverse=cell.reverse)


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    return _COLOURS.get(name, name.replace("bright", "bright_") if name.startswith("bright") else name)


def _screens(fleet: Fleet) -> Iterator[tuple[str, str]]:
    size = {"columns": _COLUMNS, "rows": _ROWS}
    environ = environment(fleet.home)
    with on_screen(fleet.words("chat", "--state", str(fleet.state), "desk"), environ=environ, **size) as screen:
        chat(fleet, screen)
        yield "terminal", picture(screen, "fleetwright chat desk")
    with on_screen(["bash", "--norc"], environ=_shell(fleet, environ), **size) as screen:
        headless(screen)
        yield "headless", picture(screen, "fleetwright run")
    with on_screen(["bash", "--norc"], environ=_plugin(fleet), columns=_WIDE, rows=_ROWS) as screen:
        kubectl(screen)
        yield "kubectl", picture(screen, "kubectl fleetwright")


def _workspace_screen(root: Path) -> str:
    checkout = root / "checkout"
    begin_checkout(checkout)
    model = ScriptedCoder(_REPAIR, "The price is multiplied by the number of pieces. The test passes now.")
    command = [sys.executable, "-m", "fleetwright_cli", "chat", "-f", str(root / "fleet"), "coder"]
    with (
        coding_fleet(root, checkout, model) as environ,
        on_screen(command, environ=environ, columns=_COLUMNS, rows=_ROWS) as screen,
    ):
        workspace(screen)
        return picture(screen, "fleetwright chat coder")


def _plugin(fleet: Fleet) -> dict[str, str]:
    """Return an environment in which kubectl has the plugin, and reaches the agent of the local fleet."""
    folder = fleet.home / "cluster"
    folder.mkdir()
    install_kubectl(fleet, folder)
    agent = {"metadata": {"name": "desk", "namespace": "shop"}, "spec": {"auth": {"administrators": ["default"]}}}
    (folder / "agents.fleetwright.dev.json").write_text(json.dumps(agent))
    program = folder / "bin" / "kubectl"
    objects = program.rename(folder / "objects")
    plugin = f'[ "$1" = fleetwright ] && shift && exec {sys.executable} -m fleetwright_cli "$@"'
    program.write_text(f'#!/bin/bash\n{plugin}\nexec {objects} "$@"\n')
    program.chmod(0o755)
    return with_kubectl(fleet, folder, AGENT_ROOT=str(fleet.state / "agents/desk"), PS1="$ ")


def _shell(fleet: Fleet, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which `fleetwright` finds the fleet as that of the current folder."""
    folder = fleet.home / "bin"
    folder.mkdir()
    program = folder / "fleetwright"
    words = f'exec {sys.executable} -m fleetwright_cli "$1" --state {fleet.state} "${{@:2}}" </dev/null'
    program.write_text(f"#!/bin/bash\n{words}\n")
    program.chmod(0o755)
    return {**environ, "PATH": f"{folder}:{environ['PATH']}", "PS1": "$ "}


def main() -> None:
    with tempfile.TemporaryDirectory() as root, running_fleet(Path(root)) as fleet:
        for name, svg in _screens(fleet):
            _write(name, svg)
    with tempfile.TemporaryDirectory() as root:
        _write("workspace", _workspace_screen(Path(root)))


def _write(name: str, svg: str) -> None:
    path = _HERE / f"{name}.svg"
    path.write_text(svg + "\n")
    sys.stdout.write(f"written: {path}\n")


if __name__ == "__main__":
    main()
