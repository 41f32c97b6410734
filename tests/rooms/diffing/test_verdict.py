"""The band of a change and its verdict, the matching of launches and of lines of source."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_rows import row_of
from tilesight.simulator.device.device import load_device
from tilesight.simulator.device.what_if import override

from tilesight.diffing.difference import Difference
from tilesight.diffing.matching import matched
from tilesight.diffing.report.text import difference_markdown, difference_text
from tilesight.diffing.side import LaunchSide, Side, SourceLine
from tilesight.diffing.source_change import changes_of
from tilesight.diffing.verdict import BAND, EDIT_BAND, EXACT, change_of, half_width, machines_of, sum_of

TIMES = st.floats(1e-6, 1e-1)


def launch(name: str = "k", time_s: float | None = 1e-3, code: str = "a", shape: str = "s") -> LaunchSide:
    """A launch of a side."""
    return LaunchSide(row=row_of(time_s, name=name), shape=shape, code=code)


def side(*launches: LaunchSide, name: str = "old") -> Side:
    """A side that was predicted."""
    codes = [item.code for item in launches]
    return Side(
        name=name,
        device="h200",
        l2="pipeline",
        timing="single",
        launches=launches,
        code="+".join(codes) if all(codes) else "",
        predicted=True,
    )


@given(TIMES, TIMES)
def test_a_band_holds_the_predicted_change_and_turns_over_with_the_sides(old_s: float, new_s: float) -> None:
    """Slower one way is faster the other way, by the same band."""
    there, back = change_of(old_s, new_s), change_of(new_s, old_s)
    assert there.low < there.ratio < there.high
    assert math.isclose(there.low, 1 / back.high)
    turned = {"slower": "faster", "faster": "slower", "cannot tell": "cannot tell"}
    assert turned[there.verdict] == back.verdict


@given(TIMES)
def test_no_change_of_other_code_is_called_the_same(time_s: float) -> None:
    """Equal predictions of different code leave open which is faster."""
    assert change_of(time_s, time_s).verdict == "cannot tell"
    assert change_of(time_s, time_s, EXACT).verdict == "same"
    assert change_of(time_s, 1.5 * time_s, EXACT).verdict == "cannot tell"


@given(TIMES, TIMES, TIMES)
def test_what_is_exact_narrows_the_band_of_all(old_s: float, new_s: float, same_s: float) -> None:
    """A launch of the same code adds time and no doubt: the band of all lies nearer to 1 than that of the part."""
    part, rest = change_of(old_s, new_s), change_of(same_s, same_s, EXACT)
    whole = sum_of([part, rest], 0.0, 0.0, at_least=False)
    assert whole.high - whole.low < part.high - part.low
    assert math.isclose(whole.new_s, new_s + same_s)


def test_the_same_code_is_exact_on_the_same_device_alone() -> None:
    """Another device has a band, which was tested between two; what nobody could measure is told."""
    h100, h200, b200 = map(load_device, ("h100", "h200", "b200"))
    here, elsewhere = machines_of(h200, h200), machines_of(h100, h200)
    assert here.same and here.band(same_code=True, same_tiling=True) == EXACT
    assert here.band(False, True) < elsewhere.band(False, True) == elsewhere.band(False, False)
    for old, new, note in (
        (h100, h200, ""),
        (h200, b200, "not tested here"),
        (h100, override(h200, ["sms=100"]), "not tested here"),
        (h200, override(h200, ["sms=100"]), "what-if of one side"),
    ):
        machines = machines_of(old, new)
        assert not machines.same and machines.same_code != EXACT and note in " ".join(machines.notes)
        assert bool(machines.notes) is bool(note) and machines == machines_of(new, old)
        difference = Difference(side(launch()), side(launch(time_s=2e-3)), machines=machines)
        assert difference.same_code and difference.verdict == difference.pairs[0].verdict == "slower"
        assert "slower, same code" in difference_text(difference, 120) and "| k |" in difference_markdown(difference)
    upgraded = machines_of(h200, h200, one_compiler=False)
    assert upgraded.same and upgraded.band(False, True) == BAND and upgraded.band(True, True) == EXACT
    assert elsewhere.same_code < here.other_code < elsewhere.other_code


def test_a_lower_bound_gets_no_verdict() -> None:
    """Twice as long at least, on one side alone, says nothing."""
    assert change_of(1e-3, 2e-3, at_least=True).verdict == "cannot tell"
    assert half_width(0.0) < math.log(2.0)


@pytest.mark.parametrize(
    ("old", "new", "pairs"),
    [
        ("ab", "ab", [(0, 0), (1, 1)]),
        ("ab", "b", [(0, None), (1, 0)]),
        ("b", "ab", [(None, 0), (0, 1)]),
        ("aa", "aa", [(0, 0), (1, 1)]),
        ("a", "b", [(0, None), (None, 0)]),
        ("", "a", [(None, 0)]),
    ],
)
def test_launches_are_matched_by_name_and_order(old: str, new: str, pairs: list[tuple[int, int]]) -> None:
    """One that has no counterpart is left alone."""
    olds, news = ([launch(name, code=name) for name in names] for names in (old, new))
    assert matched(olds, news) == pairs


def test_a_renamed_kernel_is_followed_by_its_code() -> None:
    """Each launch answers one; an edited kernel of another name is new."""
    old = [launch("a", code="x"), launch("b", code="y")]
    new = [launch("c", code="y"), launch("d", code="y"), launch("e", code="z")]
    assert matched(old, new) == [(0, None), (1, 0), (None, 1), (None, 2)]


def test_shape_comes_before_order() -> None:
    """Of two launches of a kernel the one of the same shape answers; another shape still does where nothing else is."""
    old, new = [launch(shape="1"), launch(shape="2")], [launch(shape="2")]
    assert matched(old, new) == [(0, None), (1, 0)]
    assert matched([launch(shape="1")], [launch(shape="2")]) == [(0, 0)]


def test_a_line_is_followed_by_what_stands_in_it() -> None:
    """A line that moved has not changed; an edited one answers the one that stood there; growth comes first."""

    def line(number: int, text: str, **executed: int) -> SourceLine:
        return SourceLine(file="k.py", number=number, text=text, executed=executed)

    old = [line(3, "x = a", FADD=1), line(4, "y = x", FFMA=34), line(5, "z = y", STG=7)]
    new = [line(5, "x = a", FADD=1), line(6, "y = x + 0", FADD=34, FMUL=40), line(7, "z = y", STG=9)]
    edited, grown = changes_of(old, new)
    assert (edited.old and edited.old.number, edited.new and edited.new.number) == (4, 6)
    assert edited.executed == {"FMUL": (0, 40), "FFMA": (34, 0), "FADD": (0, 34)} and edited.growth == 40
    assert grown.place.text == "z = y" and grown.growth == 2


def test_a_launch_that_vanishes_is_told_and_counts_in_the_sum() -> None:
    """Of two launches one is gone: half the time, faster, and a line that names it."""
    difference = Difference(side(launch("a"), launch("b")), side(launch("a"), name="new"), notes=("a note",))
    assert [pair.verdict for pair in difference.pairs] == ["same", "gone"]
    assert difference.change and math.isclose(difference.change.ratio, 0.5) and difference.verdict == "faster"
    text = difference_text(difference, 120)
    assert "b: is launched by old alone" in text and "a note" in text
    assert "| b |" in difference_markdown(difference) and "| a |" not in difference_markdown(difference)


def test_a_refusal_leaves_the_verdict_open() -> None:
    """What one side refuses is told; the difference is incomplete."""
    refused = LaunchSide(row=row_of(None, refused="kernel k: why not"), shape="s", code="")
    difference = Difference(side(launch()), side(refused, name="new"))
    assert not difference.complete and difference.verdict == "cannot tell"
    assert "new: refused: kernel k: why not" in difference_text(difference, 120)


def test_an_edit_of_the_source_alone_is_trusted_more() -> None:
    """A tenth slower is slower where the work is divided as before; with other tiles, or unknown ones, nobody knows."""
    for before, after, verdict in (("t", "t", "slower"), ("t", "u", "cannot tell"), ("", "", "cannot tell")):
        old = replace(launch(), tiling=before)
        new = replace(launch(time_s=1.1e-3, code="b"), tiling=after)
        assert Difference(side(old), side(new)).pairs[0].verdict == verdict


def test_a_change_that_is_small_wherever_in_the_band_it_lies_is_told_so() -> None:
    """No faster and no slower than by a tenth; a wider band, a larger change and a lower bound leave it open."""
    assert change_of(1e-3, 1.02e-3, EDIT_BAND).verdict == "within 10 %"
    assert change_of(1.02e-3, 1e-3, EDIT_BAND).verdict == "within 10 %"
    assert change_of(1e-3, 1.05e-3, EDIT_BAND).verdict == "cannot tell"
    assert change_of(1e-3, 1.02e-3).verdict == "cannot tell"
    assert change_of(1e-3, 1.02e-3, EDIT_BAND, at_least=True).verdict == "cannot tell"


def test_the_threshold_excludes_the_band() -> None:
    """A third slower is beyond 5 % wherever in the band the truth lies; a tenth slower is not."""
    for ratio, fails in ((1.33, True), (1.1, False)):
        difference = Difference(side(launch()), side(launch(time_s=ratio * 1e-3, code="b")))
        assert difference.is_slower_by(0.05) is fails


def test_one_line_says_that_nothing_changed() -> None:
    """And Markdown has no table then; names with signs of Markdown are shown as they are."""
    same = Difference(side(launch()), side(launch(), name="new_run"))
    assert difference_markdown(same) == "**Tilesight**: old against new\\_run on h200: same code, 1 launch."
    assert difference_text(same, 120) == "old against new_run on h200: same code, 1 launch"
    assert same.change is None and same.to_dict()["verdict"] == "same"


def test_an_incomplete_side_is_never_the_same() -> None:
    """A function that ended in an error after the same launches is told, and not complete."""
    ended = replace(side(launch()), ended="ValueError: no")
    difference = Difference(side(launch()), ended)
    assert not difference.complete and "ended in an error: ValueError: no" in difference_text(difference, 120)
    assert "| :--- |" not in difference_markdown(difference) and "ValueError: no" in difference_markdown(difference)


@given(TIMES, TIMES, TIMES)
def test_what_stands_on_one_side_alone_widens_the_band_both_ways(same_s: float, gone_s: float, added_s: float) -> None:
    """The band holds the ratio, and turns over with the sides."""
    same = [change_of(same_s, same_s, EXACT)]
    there, back = sum_of(same, gone_s, added_s, False), sum_of(same, added_s, gone_s, False)
    assert there.low < there.ratio < there.high
    assert math.isclose(there.low, 1 / back.high) and math.isclose(there.ratio, 1 / back.ratio)
