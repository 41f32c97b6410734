"""Predictions of launches and recorded steps, in one SQLite file that several processes may share.

They are written as they come; the file is whole whenever a process is killed.

The file of `--store` is the user's; without one they lie beside the compiler's answers, and `TILESIGHT_PREDICTIONS=off`
keeps none. An answer is never changed: whoever answers the same question first writes it; a recorded step, which files
of the user decide, too, takes the place of the one before. In the default file
the answers of several versions of this program lie side by side; those that were not asked for longest go first.
"""

import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import time
from typing import Any, TypeVar

import msgspec

from ..cache_folder import cache_folder
from ..prediction.kernels import KernelsPrediction
from ..refusal import UserError
from .keys import model

MOST_KEPT = {"predictions": 200_000, "recordings": 200}
"""Rows of each table in the default file; a recording takes 0.1 to 1 MB."""
DAY_S = 86_400
VARIABLE = "TILESIGHT_PREDICTIONS"
"""A file, or `off`."""
_LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An answer to keep. Args: key: of the question; device, kernel, time_s: for who looks into the file."""

    key: str
    device: str
    kernel: str
    time_s: float
    answer: Any


@dataclass(frozen=True, slots=True)
class Store:
    """Predictions in a file.

    Args:
        path: of it; it is made when it is first written to.
        usual: it is the default one: rows are limited, and what fails of it only costs time.
    """

    path: Path
    usual: bool = False

    def get(self, keys: Iterable[str]) -> dict[str, KernelsPrediction]:
        """Those of some questions that are answered, by key."""
        return self.answers(keys, KernelsPrediction)

    def answers(self, keys: Iterable[str], kind: type[Answer]) -> dict[str, Answer]:
        """The same of another kind of prediction."""
        return self._looked_up("predictions", "prediction", keys, kind)

    def put(self, key: str, prediction: KernelsPrediction) -> None:
        """Keep an answer. One that lacks something is not kept: asked again, it may be given."""
        if prediction.answered:
            names = " + ".join(dict.fromkeys(row.name for row in prediction.rows))
            time_s = prediction.total.time_s
            self.put_all([Row(key=key, device=prediction.device, kernel=names, time_s=time_s, answer=prediction)])

    def put_all(self, rows: Sequence[Row]) -> None:
        """Keep answers, all or none of them, but for those whose counts have more than 64 bits."""
        encoded: list[tuple[Any, ...]] = []
        for row in rows:
            with suppress(OverflowError):
                blob = msgspec.msgpack.encode(row.answer)
                encoded.append((row.key, model(), today(), row.device, row.kernel, row.time_s, blob))
        self._insert("predictions", encoded)

    def recordings(self, keys: Iterable[str], kind: type[Answer]) -> dict[str, Answer]:
        """Recorded steps that are kept, by key of the question."""
        return self._looked_up("recordings", "recording", keys, kind)

    def put_recording(self, key: str, recording: Any) -> None:
        """Keep a recorded step in the place of the one before."""
        self._insert("recordings", [(key, model(), today(), msgspec.msgpack.encode(recording))], "REPLACE")

    def check(self) -> None:
        """See that the file can be used. Raises: UserError: it is none, or of another version of the program."""
        if not self.path.exists():
            if not os.access(self.path.parent, os.W_OK):
                raise UserError(f"{str(self.path)!r}: cannot be written (no such folder, or no permission)")
            return
        with closing(connected(self.path)) as database:
            other = database.execute("SELECT model FROM predictions WHERE model != ? LIMIT 1", (model(),)).fetchone()
        if other:
            raise UserError(
                f"{str(self.path)!r}: holds predictions of another version of this program ({other[0]}, this is "
                f"{model()}): name another file"
            )

    def _looked_up(self, table: str, column: str, keys: Iterable[str], kind: type[Answer]) -> dict[str, Answer]:
        if not self.path.exists():
            return {}
        query = f"SELECT {column}, used_day FROM {table} WHERE key = ?"
        with self._may_fail(), closing(connected(self.path)) as database:
            rows = {key: row for key in keys if (row := database.execute(query, (key,)).fetchone())}
            answers = {key: msgspec.msgpack.decode(row[0], type=kind) for key, row in rows.items()}
            old = [(today(), key) for key, row in rows.items() if self.usual and row[1] != today()]
            if old and os.access(self.path, os.W_OK):
                with self._may_fail(), transaction(database):
                    database.executemany(f"UPDATE {table} SET used_day = ? WHERE key = ?", old)
            return answers
        return {}

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]], others: str = "IGNORE") -> None:
        """Args: others: what becomes of a row that has the key of another: `IGNORE`, or `REPLACE` the other."""
        if not rows:
            return
        with self._may_fail():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(connected(self.path)) as database, transaction(database):
                values = ", ".join("?" * len(rows[0]))
                database.executemany(f"INSERT OR {others} INTO {table} VALUES ({values})", rows)
                if self.usual:
                    _forget_oldest(database, table)

    @contextmanager
    def _may_fail(self) -> Iterator[None]:
        """Reading or writing, which predictions can do without where it was not asked for."""
        try:
            yield
        except (OSError, sqlite3.Error, msgspec.MsgspecError, UserError) as error:
            if not self.usual:
                raise
            _warn_once(str(self.path), _why(error))


def usual_store() -> Store | None:
    """The default file; None where nothing is kept, or none can be."""
    given = os.environ.get(VARIABLE, "")
    if given == "off":
        return None
    return _usable(Path(given) if given else cache_folder() / f"predictions-{LAYOUT}.sqlite")


@cache
def _usable(path: Path) -> Store | None:
    store = Store(path, usual=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connected(path).close()
    except (OSError, sqlite3.Error, UserError) as error:
        _warn_once(str(path), _why(error))
        return None
    return store


def _why(error: Exception) -> str:
    """What an error says, without its number."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


@cache
def _warn_once(path: str, why: str) -> None:
    """Say that what is predicted is not kept, once for each reason."""
    named = why if path in why else f"{path!r}: {why}"
    _LOG.warning("tilesight: what is predicted is not kept: %s; set %s to another file, or to off", named, VARIABLE)


def today() -> int:
    """The day by the clock, of which a row remembers the last that asked for it."""
    return int(time() // DAY_S)


def _forget_oldest(database: sqlite3.Connection, table: str) -> None:
    """Drop the rows beyond the limit that were not asked for longest."""
    ((most,),) = database.execute(f"SELECT MAX(rowid) - MIN(rowid) + 1 FROM {table}")  # needs no look at every row
    if most > MOST_KEPT[table]:
        ((count,),) = database.execute(f"SELECT COUNT(*) FROM {table}")
        oldest = f"SELECT rowid FROM {table} ORDER BY used_day, rowid LIMIT MAX(0, ?)"
        database.execute(f"DELETE FROM {table} WHERE rowid IN ({oldest})", (count - MOST_KEPT[table],))


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
