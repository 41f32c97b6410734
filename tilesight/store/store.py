"""Predictions, and static works of launches, in one SQLite file that several processes may share.

They are written as they come; the file is whole whenever a process is killed.

The file of `--store` is the user's; without one they lie beside the compiler's answers, and `TILESIGHT_PREDICTIONS=off`
keeps none. A row is never changed: whoever answers the same question first writes it.
"""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..simulator.prediction.kernels import KernelsPrediction
from ..simulator.screening.static_time import StaticWork
from .keys import model

APPLICATION = 0x54494C45
"""Of SQLite's header: the file is ours (`TILE`)."""
LAYOUT = 2
"""Version of the tables."""
BUSY_S = 60.0
"""What a writer waits for others [s]."""
MOST_KEPT = 200_000
"""Rows of each table in the file that nobody named; the oldest go first."""
PREDICTIONS = """
CREATE TABLE IF NOT EXISTS predictions (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, device TEXT NOT NULL, kernel TEXT NOT NULL, time_s REAL NOT NULL,
    prediction BLOB NOT NULL
)"""
WORKS = "CREATE TABLE IF NOT EXISTS works (key TEXT PRIMARY KEY, model TEXT NOT NULL, work BLOB NOT NULL)"
TABLES = ("predictions", "works")
VARIABLE = "TILESIGHT_PREDICTIONS"
"""A file, or `off`."""


class Unusable(ValueError):
    """A file that holds no predictions of this version; the text is one line."""


@dataclass(frozen=True, slots=True)
class Store:
    """Predictions in a file. Args: path: of it; it is made when it is first written to."""

    path: Path

    def get(self, keys: Iterable[str]) -> dict[str, KernelsPrediction]:
        """Those of some questions that are answered, by key."""
        blobs = self._blobs("SELECT prediction FROM predictions WHERE key = ?", keys)
        return {key: msgspec.msgpack.decode(blob, type=KernelsPrediction) for key, blob in blobs.items()}

    def get_works(self, keys: Iterable[str]) -> dict[str, StaticWork | None]:
        """Static works that are known, by the key of the question."""
        blobs = self._blobs("SELECT work FROM works WHERE key = ?", keys)
        return {key: msgspec.msgpack.decode(blob, type=StaticWork) for key, blob in blobs.items()}

    def _blobs(self, query: str, keys: Iterable[str]) -> dict[str, bytes]:
        if not self.path.exists():
            return {}
        with closing(_connected(self.path)) as database:
            rows = {key: database.execute(query, (key,)).fetchone() for key in keys}
        return {key: row[0] for key, row in rows.items() if row}

    def put(self, key: str, prediction: KernelsPrediction) -> None:
        """Keep an answer. One that lacks something is not kept: asked again, it may be given."""
        if not prediction.complete:
            return
        names = " + ".join(dict.fromkeys(row.name for row in prediction.rows))
        row = (key, model(), prediction.device, names, prediction.total.time_s, msgspec.msgpack.encode(prediction))
        self._insert("INSERT OR IGNORE INTO predictions VALUES (?, ?, ?, ?, ?, ?)", row)

    def put_work(self, key: str, work: StaticWork | None) -> None:
        """Keep a static work; None, of what cannot be followed, is not kept."""
        if work is not None:
            self._insert("INSERT OR IGNORE INTO works VALUES (?, ?, ?)", (key, model(), msgspec.msgpack.encode(work)))

    def _insert(self, statement: str, row: tuple[Any, ...]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(_connected(self.path)) as database:
            database.execute(statement, row)

    def check(self) -> None:
        """See that the file can be used. Raises: Unusable: it is no such file, or of another version of the program."""
        if not self.path.exists():
            if not os.access(self.path.parent, os.W_OK):
                raise Unusable(f"{str(self.path)!r}: cannot be written (no such folder, or no permission)")
            return
        with closing(_connected(self.path)) as database:
            other = database.execute("SELECT model FROM predictions WHERE model != ? LIMIT 1", (model(),)).fetchone()
        if other:
            raise Unusable(
                f"{str(self.path)!r}: holds predictions of another version of this program ({other[0]}, this is "
                f"{model()}): name another file"
            )

    def forget_others(self) -> None:
        """Drop what other versions have answered, and the oldest of too many."""
        with closing(_connected(self.path)) as database:
            for table in TABLES:
                database.execute(f"DELETE FROM {table} WHERE model != ?", (model(),))
                database.execute(
                    f"DELETE FROM {table} WHERE rowid <= (SELECT MAX(rowid) FROM {table}) - ?", (MOST_KEPT,)
                )


def usual_store() -> Store | None:
    """The file that nobody named; None where nothing is kept, or none can be."""
    given = os.environ.get(VARIABLE, "")
    if given == "off":
        return None
    from ..kernels.compile.cache import cache_folder, warn_once

    store = Store(Path(given) if given else cache_folder() / "predictions.sqlite")
    try:
        if store.path.exists():
            store.forget_others()
        else:
            store.path.parent.mkdir(parents=True, exist_ok=True)
            _connected(store.path).close()
    except (OSError, sqlite3.Error, Unusable) as error:
        warn_once(store.path.parent, str(error))
        return None
    return store


def _connected(path: Path) -> sqlite3.Connection:
    """A connection that commits each statement. Raises: Unusable: the file is none of ours."""
    try:
        database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    except sqlite3.Error as error:
        raise Unusable(f"{str(path)!r}: cannot be opened ({error})") from None
    try:
        if _marks(database) == (0, 0):
            database.execute("BEGIN IMMEDIATE")  # another process may be making it
            if _marks(database) == (0, 0) and not database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                database.execute(PREDICTIONS)
                database.execute(WORKS)
                database.execute(f"PRAGMA application_id = {APPLICATION}")
                database.execute(f"PRAGMA user_version = {LAYOUT}")
            database.execute("COMMIT")
        if _marks(database) != (APPLICATION, LAYOUT):
            raise Unusable(f"{str(path)!r}: is a database of another program, or of another version of this one")
        database.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error as error:
        database.close()
        raise Unusable(f"{str(path)!r}: holds no predictions ({error})") from None
    except Unusable:
        database.close()
        raise
    return database


def _marks(database: sqlite3.Connection) -> tuple[int, int]:
    """Whose a file is, and of which layout; zeros of a new one."""
    application, layout = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    return application, layout
