"""How a process that serves for long looks for garbage: seldom, and never among what stays."""

import gc
from typing import Final

_OBJECTS: Final = 10_000
"""So many more objects than before before cycles among the youngest are looked for. A request leaves few that only
that look frees; with Python's 700 it looks at every second one, for a twentieth of the whole time, and a turn of a long
conversation some hundred times.
"""


def settle() -> None:
    """What there is by now stays for good, and is not looked at again. Called again where much was imported since."""
    gc.freeze()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
