"""The picture of a space: which parameters it shows first, the best one, and what is refused."""

import re
from dataclasses import replace
from itertools import product
from typing import Any

from support.made_rows import row_of
from tilesight.simulator.report.page import Made

from tilesight.tuning.html import most_telling, pictures, tuning_html
from tilesight.tuning.tuning import Configured, TunedLaunch, Tuning, ranked

SPACE = {"STAGES": (2, 3), "BM": (64, 128, 256), "BN": (64, 128)}


def launch_of(**space: tuple[Any, ...]) -> TunedLaunch:
    """BM counts most, then BN, then STAGES; 256 x 128 does not fit, nor 256 x 64 with 3 stages."""
    configured = []
    for values in product(*space.values()):
        item = dict(zip(space, values, strict=True))
        fits = item.get("BM", 0) * item.get("BN", 0) < 256 * 128 and (item.get("BM"), item["STAGES"]) != (256, 3)
        time_s = 1e-5 * (1 + 64 / item.get("BM", 128)) * (1 + 64 / item.get("BN", 64)) * (1 - 0.01 * item["STAGES"])
        row = row_of(time_s if fits else None, refused="kernel k: too much shared memory")
        configured.append(Configured(values=item, row=row))
    return TunedLaunch(kernel="k", shape={}, key={}, configured=ranked(configured), default=configured[0].values)


def test_the_parameter_whose_wrong_value_costs_most_comes_first() -> None:
    """Where the others are chosen well; one that never changes is not shown."""
    assert most_telling(launch_of(**SPACE, KIND=("a",))) == ["BM", "BN", "STAGES"]


def test_the_map_marks_the_best_and_counts_what_is_refused() -> None:
    """Of 256 x 64 one of two, of 256 x 128 all; and each says why when it is pointed at."""
    both = "".join(pictures(launch_of(**SPACE), 0))
    texts = re.findall(r">([^<>]+)</text>", both)
    assert texts.count("best") == 1 and "1 of 2 refused" in texts and texts.count("refused") == 2
    tips = re.findall(r'data-tip="([^"]+)"', both)
    assert sum(tip.startswith("all 2 refused, e.g.&#10;") for tip in tips) == 1
    assert all("too much shared memory" in tip for tip in tips if "refused, e.g." in tip)
    times = [tip for tip in tips if "vs best" in tip and "fastest of" not in tip]
    assert len(times) == 9 * len(SPACE), "a mark for each of nine predicted configurations at each parameter"


def test_one_parameter_has_no_map_and_none_has_no_picture() -> None:
    """Nor has a launch of which nothing is predicted."""
    (_, _, picture, _) = pictures(launch_of(STAGES=(2, 3, 4)), 0)
    assert 'id="values-0"' in picture
    assert pictures(launch_of(STAGES=(2,)), 0) == []
    launch = launch_of(STAGES=(2, 3))
    refused = tuple(replace(item, row=row_of(None)) for item in launch.configured)
    assert pictures(replace(launch, configured=refused), 0) == []


def test_pictures_of_two_launches_share_no_id() -> None:
    """And the page asks nobody else for anything."""
    tuning = Tuning(target="t", device="h200", launches=(launch_of(**SPACE), launch_of(**SPACE)))
    html = tuning_html(tuning, Made(command="", version="", date=""))
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids)) and {"map-0", "map-1", "values-0", "values-1"} <= set(ids)
    assert not re.search(r'(src|href)="(?!#)', html)
