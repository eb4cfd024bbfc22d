"""Finds and unmounts the mounts below a folder, deepest first. The folder must be one of the project's."""

import re
import subprocess
from pathlib import Path


def below(folder: Path, mountinfo: str) -> list[Path]:
    """Return the mounts from the text of /proc/self/mountinfo, where spaces in paths are written \\040."""
    points = [
        Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line.split()[4]))
        for line in mountinfo.splitlines()
    ]
    return [point for point in reversed(points) if point == folder or folder in point.parents]


def undo(folder: Path) -> None:
    for point in below(folder, Path("/proc/self/mountinfo").read_text()):
        subprocess.run(["umount", "--lazy", str(point)], check=True, capture_output=True)
