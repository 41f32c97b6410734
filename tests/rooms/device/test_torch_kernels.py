"""Costs of torch's kernels: where they are from, what a device file or a setting may replace, what asks for them."""

import ast
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from tilesight.simulator import operations
from tilesight.simulator.device import device as device_room
from tilesight.simulator.device.device import load_device, parse_device
from tilesight.simulator.device.numbers import Provenance
from tilesight.simulator.device.sm_numbers import architectures
from tilesight.simulator.device.torch_kernels import load_kernels
from tilesight.simulator.device.what_if import override
from tilesight.validate import tables

HOPPER = load_kernels("sm_90")
H200 = (resources.files(device_room.__package__) / "catalogue" / "h200.toml").read_text("utf-8")
LINE = 'row_s = { value = 1e-6, kind = "measured", source = "our card" }'


def asked_for(source: str) -> Iterator[str]:
    """Patterns of the keys in some code: texts `family.number`, fields of f-strings standing for anything."""
    families = {key.partition(".")[0] for key in HOPPER}
    nodes = list(ast.walk(ast.parse(source)))
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = re.escape(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in node.values)
            text = "".join(map(str, parts))
        else:
            continue
        family, dot, rest = text.partition(r"\.")
        if dot and family in families and re.fullmatch(r"[\w.+]+", rest):
            yield text


def test_every_price_asks_for_numbers_that_there_are_and_every_number_is_asked_for() -> None:
    """A misspelt key, or a number that nothing reads, is found without a price."""
    folders = [Path(str(resources.files(package.__package__))) for package in (operations, tables)]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    patterns = {text for path in files for text in asked_for(path.read_text("utf-8"))}
    assert len(patterns) > 200
    assert [text for text in patterns if not any(re.fullmatch(text, key) for key in HOPPER)] == []
    assert [key for key in HOPPER if not any(re.fullmatch(text, key) for text in patterns)] == []


def test_every_number_that_was_read_off_a_gpu_names_it() -> None:
    """Fitted and measured ones say H100, H200 or B200, and all say what they mean."""
    for key, number in HOPPER.items():
        assert number.doc, key
        if number.origin.kind in ("measured", "fitted"):
            assert re.search("H100|H200|B200", number.origin.source), key


@pytest.mark.parametrize("name", [name for name in architectures() if name != "sm_90"])
def test_other_architectures_say_what_is_carried_over(name: str) -> None:
    """The same values as Hopper's, and each tells what it was there, but for what is fitted on public tables."""
    for key, number in load_kernels(name).items():
        if number.value == HOPPER[key].value and number.origin.kind == "assumed" and "sm_90" in number.origin.source:
            kind, source = HOPPER[key].origin.kind, HOPPER[key].origin.source
            assert number.origin == Provenance("assumed", f"carried over from sm_90 ({kind}: {source})")
        else:
            assert key.startswith(("matmul.", "collective.", "attention.paged_")) or key == "l2.held_fraction"


def test_a_device_file_may_replace_single_numbers() -> None:
    """In a table of its family; the others are the architecture's, and what it means is still said."""
    device = parse_device(f"{H200}\n[torch_kernels.softmax]\n{LINE}\n", "my.toml")
    number = device.torch_kernels["softmax.row_s"]
    assert (number.value, number.origin) == (1e-6, Provenance("measured", "our card"))
    assert number.doc == HOPPER["softmax.row_s"].doc
    assert device.torch_kernels["softmax.round_s"] == HOPPER["softmax.round_s"]
    assert device != load_device("h200")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("[torch_kernels]\nsoftmax = 3", "[torch_kernels] must be tables [torch_kernels.FAMILY] with numbers"),
        (f"[torch_kernels.softmin]\n{LINE}", "[torch_kernels] key 'softmin.row_s' is unknown: did you mean softmax."),
        ("[torch_kernels.softmax]\nrow_s = 3", "[torch_kernels] softmax.row_s: must be { value = ..., kind ="),
        (
            f"[torch_kernels.softmax]\n{LINE.replace('1e-6', '-1')}",
            "[torch_kernels] softmax.row_s = -1: must be a number from 0 to",
        ),
    ],
)
def test_a_mistake_in_the_tables_gets_one_line(table: str, expected: str) -> None:
    """It names file, table, key and what is allowed."""
    with pytest.raises(ValueError) as caught:
        parse_device(f"{H200}\n{table}\n", "my.toml")
    assert str(caught.value).startswith(f"my.toml: {expected}")
    assert "\n" not in str(caught.value)


def test_a_setting_replaces_a_number() -> None:
    """As it does a device's, and says so; it is no longer read off one shape."""
    assert HOPPER["attention.decode_fraction"].shapes == 1
    device = override(load_device("h200"), ["attention.decode_fraction=0.8", "l2_bytes=30MiB"])
    number = device.torch_kernels["attention.decode_fraction"]
    assert (number.value, number.origin, number.shapes) == (0.8, Provenance("set", "--set"), 0)
    with pytest.raises(ValueError, match=r"^--set attention\.decode_fraction: .* must be a number from 0 to 1$"):
        override(device, ["attention.decode_fraction=1.5"])
    with pytest.raises(ValueError, match=r"^--set 'softmax\.rows=1': key 'softmax\.rows' is unknown: did you mean"):
        override(device, ["softmax.rows=1"])
