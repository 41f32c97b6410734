"""The SQLite file that predictions lie in: whose it is, its tables, and connections to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..refusal import UserError

APPLICATION = 0x54494C45
"""Of SQLite's header: the file is ours (`TILE`)."""
LAYOUT = 5
"""Version of the tables."""
BUSY_S = 60.0
"""What a writer waits for others [s]."""
PREDICTIONS = """
CREATE TABLE IF NOT EXISTS predictions (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, used_day INTEGER NOT NULL, device TEXT NOT NULL, kernel TEXT NOT NULL,
    time_s REAL NOT NULL, prediction BLOB NOT NULL
)"""
RECORDINGS = """
CREATE TABLE IF NOT EXISTS recordings (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, used_day INTEGER NOT NULL, recording BLOB NOT NULL
)"""


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Changes that are made all or none."""
    database.execute("BEGIN IMMEDIATE")
    with database:
        yield


def connected(path: Path) -> sqlite3.Connection:
    """A connection that commits each statement. Raises: UserError: the file is none of ours."""
    try:
        database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    except sqlite3.Error as error:
        raise UserError(f"{str(path)!r}: cannot be opened ({error})") from None
    try:
        if _marks(database) == (0, 0):
            database.execute("BEGIN IMMEDIATE")  # another process may be making it
            if _marks(database) == (0, 0) and not database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                database.execute(PREDICTIONS)
                database.execute(RECORDINGS)
                database.execute(f"PRAGMA application_id = {APPLICATION}")
                database.execute(f"PRAGMA user_version = {LAYOUT}")
            database.execute("COMMIT")
        if _marks(database) != (APPLICATION, LAYOUT):
            raise UserError(f"{str(path)!r}: is a database of another program, or of another version of this one")
        database.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error as error:
        database.close()
        raise UserError(f"{str(path)!r}: holds no predictions ({error})") from None
    except UserError:
        database.close()
        raise
    return database


def _marks(database: sqlite3.Connection) -> tuple[int, int]:
    """Whose a file is, and of which layout; zeros of a new one."""
    application, layout = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    return application, layout
