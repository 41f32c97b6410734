"""Predictions in a file: found again as they were, never half there, never of another version."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path

import pytest
from support.made_rows import prediction_of, row_of
from tilesight.simulator.refusal import UserError
from tilesight.simulator.store import store as module
from tilesight.simulator.store.store import Row, Store, usual_store


def test_what_is_found_again_is_equal_to_the_last_digit(tmp_path: Path) -> None:
    """0.1 + 0.2 comes back as it was."""
    prediction = prediction_of(row_of(0.1 + 0.2, "BLOCK: 1"))
    store = Store(tmp_path / "kept")
    assert store.get(["a"]) == {}
    store.put("a", prediction)
    assert store.get(["a", "b"]) == {"a": prediction}


def test_the_first_answer_stays(tmp_path: Path) -> None:
    """A second one for the same question is dropped."""
    store = Store(tmp_path / "kept")
    store.put("a", prediction_of(row_of(1e-6)))
    store.put("a", prediction_of(row_of(2e-6)))
    assert store.get(["a"])["a"].total.time_s == 1e-6


def test_what_lacks_something_is_not_kept(tmp_path: Path) -> None:
    """A refusal may have been one of time."""
    store = Store(tmp_path / "kept")
    store.put("a", prediction_of(row_of(None)))
    assert store.get(["a"]) == {}


def test_a_recording_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """Files of the user decide on it, which are no part of the key."""
    store = Store(tmp_path / "kept")
    for recording in (b"old", b"new"):
        store.put_recording("a", recording)
    assert store.recordings(["a", "b"], bytes) == {"a": b"new"} and store.get(["a"]) == {}


def test_many_write_at_the_same_time_and_nothing_is_lost(tmp_path: Path) -> None:
    """Eight threads, each with connections of its own; the file is made by whoever is first."""
    store = Store(tmp_path / "kept")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.put(str(number), prediction_of(row_of(number + 1.0))), range(64)))
    kept = store.get(map(str, range(64)))
    assert {key: answer.total.time_s for key, answer in kept.items()} == {str(n): n + 1.0 for n in range(64)}


def test_a_file_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers are none of this one's."""
    store = Store(tmp_path / "kept")
    store.check()
    store.put("a", prediction_of(row_of(1e-6)))
    store.check()
    monkeypatch.setattr(module, "model", lambda: "another")
    with pytest.raises(
        UserError, match=r"holds predictions of another version of this program \(\w+, this is another\)"
    ):
        store.check()


def test_a_file_of_another_program_stays_as_it_is(tmp_path: Path) -> None:
    """A text, a database without our mark, and a folder that is not there."""
    text, other = tmp_path / "text", tmp_path / "other"
    text.write_text("notes of mine\n" * 100)
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    before = other.read_bytes()
    with pytest.raises(UserError, match="holds no predictions"):
        Store(text).check()
    with pytest.raises(UserError, match="is a database of another program"):
        Store(other).check()
    assert text.read_text() == "notes of mine\n" * 100 and other.read_bytes() == before
    with pytest.raises(UserError, match="cannot be written"):
        Store(tmp_path / "no" / "folder").check()


@pytest.fixture
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The file that nobody named, on its first day, with room for three rows."""
    monkeypatch.setenv(module.VARIABLE, str(tmp_path / "usual"))
    monkeypatch.setitem(module.MOST_KEPT, "predictions", 3)
    monkeypatch.setattr(module, "today", lambda: 1)
    store = usual_store()
    assert store
    return store


def test_versions_that_take_turns_keep_what_each_has_answered(usual: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the file that nobody named; its name says which layout of the tables it has."""
    for number, version in enumerate(("old", "new", "old")):
        monkeypatch.setattr(module, "model", lambda version=version: version)
        store = usual_store()
        assert store == usual
        store.put(f"{version} {number}", prediction_of(row_of(1e-6)))
    assert set(usual.get(["old 0", "new 1", "old 2"])) == {"old 0", "new 1", "old 2"}


def test_what_was_not_asked_for_longest_goes_first(usual: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those of a day, what was written first; asking counts, and the file of --store has no limit."""
    for key in "abc":
        usual.put(key, prediction_of(row_of(1e-6)))
    monkeypatch.setattr(module, "today", lambda: 2)
    assert set(usual.get(["a"])) == {"a"}
    usual.put("d", prediction_of(row_of(1e-6)))
    assert set(usual.get("abcd")) == {"a", "c", "d"}
    theirs = Store(usual.path.with_name("theirs"))
    for key in "abcd":
        theirs.put(key, prediction_of(row_of(1e-6)))
    assert set(theirs.get("abcd")) == set("abcd")


def test_a_file_that_is_damaged_later_costs_time_alone(usual: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is found, nothing is kept, and one line says so; it stays as it is."""
    usual.put("a", prediction_of(row_of(1e-6)))
    usual.path.write_bytes(b"no database" * 1000)
    for _ in range(2):
        assert usual.get(["a"]) == {}
        usual.put("b", prediction_of(row_of(1e-6)))
    (line,) = caplog.messages
    assert line.startswith(f"tilesight: what is predicted is not kept: {str(usual.path)!r}: holds no predictions (")
    assert line.endswith("; set TILESIGHT_PREDICTIONS to another file, or to off")
    assert usual.path.read_bytes() == b"no database" * 1000


def test_nothing_is_kept_where_that_is_switched_off_or_impossible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Predictions go on without it."""
    assert usual_store() is None  # the tests switch it off
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(module.VARIABLE, str(tmp_path / "file" / "usual"))
    assert usual_store() is None


def test_counts_beyond_64_bits_are_not_kept(tmp_path: Path) -> None:
    """They are counted anew; what is written with them is kept."""
    store = Store(tmp_path / "kept")
    rows = [
        Row(key=key, device="h200", kernel="k", time_s=1.0, answer=[2**bits]) for key, bits in (("a", 64), ("b", 63))
    ]
    store.put_all(rows)
    store.put_all(rows[:1])
    assert store.answers("ab", list[int]) == {"b": [2**63]}


def test_endless_numbers_come_back(tmp_path: Path) -> None:
    """As JSON could not hold them."""
    store = Store(tmp_path / "kept")
    store.put("a", prediction_of(row_of(inf)))
    assert store.get(["a"])["a"].total.time_s == inf
