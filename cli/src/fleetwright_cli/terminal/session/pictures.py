"""Pictures that go with a message, read from files of this machine."""

from pathlib import Path
from typing import Final

from fleetwright_cli.terminal.session.messages import Picture

_LARGEST: Final = 3 * 1024 * 1024
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
SUFFIXES: Final = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})


class InvalidPicture(ValueError):  # noqa: N818 - describes the file
    """The file is not a picture that a message can carry."""


def picture_of(path: Path) -> Picture:
    """Return a picture. Its type comes from its content. Raises: InvalidPicture."""
    try:
        if path.stat().st_size > _LARGEST:
            raise InvalidPicture(f"{path}: a picture has at most {_LARGEST} bytes; make it smaller")
        content = path.read_bytes()
    except OSError as error:
        raise InvalidPicture(f"{path}: {error.strerror}") from None
    for signature, media_type in _SIGNATURES:
        if content.startswith(signature):
            return Picture(path.name, media_type, content)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return Picture(path.name, "image/webp", content)
    raise InvalidPicture(f"{path}: is not a PNG, JPEG, GIF or WebP picture")
