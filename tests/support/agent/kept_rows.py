"""A database with one table, and the work that inserts rows into it."""

import sqlite3
from collections.abc import Callable
from typing import Any

SCHEMA = ("CREATE TABLE kept (n INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT UNIQUE);",)


Work = Callable[[sqlite3.Connection], Any]


def insert_row(what: object) -> Work:
    """Return the work that inserts one row."""

    def work(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO kept (what) VALUES (?)", (what,))

    return work
