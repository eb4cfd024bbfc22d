"""A private file that appears only when its content is complete."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import click


@contextmanager
def complete_file(path: Path, *, replaces: bool) -> Iterator[BinaryIO]:
    """Give a new file beside `path`, which only its owner can read, and rename it to `path` at the end.

    An error within the block removes the new file, and `path` stays as it is.

    Raises:
        click.ClickException: `path` exists and may not be replaced, or the file cannot be written.
    """
    if not replaces and os.path.lexists(path):
        raise click.ClickException(f"{path} exists already; --force replaces it, or give --file another name")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as fresh:
            try:
                yield cast("BinaryIO", fresh)
                fresh.flush()
                os.fsync(fresh.fileno())
                Path(fresh.name).replace(path)
            except BaseException:
                Path(fresh.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from None
