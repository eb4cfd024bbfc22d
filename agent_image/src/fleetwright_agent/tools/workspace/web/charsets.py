"""Decodes the body of a text response. Pure."""

import codecs
import re
from email.message import Message
from typing import Final

_META: Final = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_HEAD_BYTES: Final = 2048
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_REFUSED: Final = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined"})
"""Encodings that no page needs, and that are slow or change the meaning of ASCII characters."""


def media_type_of(content_type: str) -> tuple[str, str]:
    """Return the media type and the charset of a Content-Type header, in lower case."""
    message = Message()
    message["Content-Type"] = content_type
    charset = message.get_param("charset")
    return message.get_content_type().lower(), charset.lower() if isinstance(charset, str) else ""


def decoded(body: bytes, *, charset: str, is_html: bool) -> str:
    """Return the text. A byte order mark counts first, then the header, then the page's own statement."""
    stated = [name for mark, name in _BOMS if body.startswith(mark)]
    stated.append(charset)
    if is_html and (found := _META.search(body[:_HEAD_BYTES])):
        stated.append(found[1].decode().lower())
    for name in stated:
        try:
            if name and codecs.lookup(name).name.replace("_", "-") not in _REFUSED:
                return body.decode(name, "replace")
        except (LookupError, ValueError):
            continue
    return body.decode("utf-8", "replace")
