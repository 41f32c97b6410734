"""Values to try: as files and options have them, for the kernels that have such parameters."""

from pathlib import Path

import pytest
from tilesight.kernels.configurations.space import Space, combinations, read_space, space_of, sweep


def test_a_table_is_for_one_kernel_and_other_lines_for_all(tmp_path: Path) -> None:
    """What the table says of a parameter goes before."""
    path = tmp_path / "space.toml"
    path.write_text("num_warps = [4, 8]\n[matmul]\nBLOCK = [64]\nnum_warps = 2\n")
    space = read_space(path)
    assert space.values("matmul", ("BLOCK", "N")) == {"num_warps": (2,), "BLOCK": (64,)}
    assert space.values("other", ("BLOCK",)) == {"num_warps": (4, 8)}
    assert space_of(space.to_dict()) == space


def test_the_command_line_says_the_same() -> None:
    """Numbers, truth values and texts are told apart."""
    assert sweep(["num_warps=4,8", "matmul.BLOCK = 64", "FAST=true,False", "kind=a,b", "eps=1e-3"]) == Space(
        every={"num_warps": (4, 8), "FAST": (True, False), "kind": ("a", "b"), "eps": (1e-3,)},
        of={"matmul": {"BLOCK": (64,)}},
    )


def test_each_combination_comes_once_the_last_parameter_changing_fastest() -> None:
    """As nested loops in the order of the file."""
    assert list(combinations({"a": (1, 2), "b": (3, 4)})) == [
        {"a": 1, "b": 3}, {"a": 1, "b": 4}, {"a": 2, "b": 3}, {"a": 2, "b": 4},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "given, line",
    [
        ({"BLOCK": []}, "BLOCK = []: must be a list of numbers, texts, true or false"),
        ({"BLOCK": [64, 64]}, "BLOCK = [64, 64]: has a value twice; give it once"),
        ({"num_warps": [4, 0]}, "num_warps = [4, 0]: must be whole numbers of 1 or more"),
        ({"f": {"num_stages": ["x"]}}, "f.num_stages = ['x']: must be whole numbers of 1 or more"),
        ({"f": {"BLOCK": [{}]}}, "f.BLOCK = [{}]: must be a list of numbers, texts, true or false"),
        (
            {name: list(range(1, 41)) for name in "abcd"},
            "2,560,000 combinations: at most 100,000 are tried",
        ),
    ],
)
def test_what_is_no_space_is_told_by_name(given: dict[str, object], line: str) -> None:
    """Empty lists, repeats, options that are no whole numbers, tables in lists, too many."""
    with pytest.raises(ValueError) as caught:
        space_of(given)
    assert str(caught.value) == line


@pytest.mark.parametrize("text", ["BLOCK", "BLOCK=", "=64", "a.b.c=64", "a b=3", ".BLOCK=64"])
def test_an_option_that_is_no_list_of_values_is_told_how_to_write_one(text: str) -> None:
    """Nothing of it is taken."""
    with pytest.raises(ValueError, match=r"must be NAME=VALUE,VALUE or KERNEL\.NAME=VALUE,VALUE"):
        sweep([text])


def test_a_parameter_given_twice_is_told() -> None:
    """As one of them would be ignored."""
    with pytest.raises(ValueError, match="num_warps is given twice; give it once"):
        sweep(["num_warps=4", "num_warps=8"])


def test_a_file_that_is_no_toml_says_where(tmp_path: Path) -> None:
    """The line of TOML's own parser."""
    path = tmp_path / "space.toml"
    path.write_text("BLOCK = [64,\nnum_warps = 4\n")
    with pytest.raises(ValueError, match=r"is no TOML: .*line 2"):
        read_space(path)


def test_what_no_kernel_has_is_found() -> None:
    """A misspelt parameter, kernel, or parameter of a kernel."""
    kernels = {"matmul": ("BM", "BN"), "norm": ("BLOCK",)}
    assert space_of({"BLOCK": [64], "num_warps": [4], "matmul": {"BM": [64]}}).unread(kernels) == ""
    assert space_of({"BLOK": [64]}).unread(kernels) == (
        "the space names BLOK: no constexpr of matmul, norm: must be one of BLOCK, BM, BN, num_warps, num_stages, "
        "num_ctas, maxnreg"
    )
    assert "no kernel of that name is launched: matmul, norm" in space_of({"gemm": {"BM": [64]}}).unread(kernels)
    assert "names norm.BM: no constexpr of that kernel" in space_of({"norm": {"BM": [64]}}).unread(kernels)
