"""Configurations of one machine code are told as one."""

from tilesight.simulator.prediction.kernel_row import KernelRow, same_code


def row(code: str) -> KernelRow:
    """A launch of some machine code."""
    return KernelRow(name="k", grid=(1, 1, 1), num_warps=4, num_stages=1, code=code)


def test_configurations_of_one_code_are_named() -> None:
    """The first two of them; those without code are taken to differ."""
    rows = [("a", row("x")), ("b", row("y")), ("c", row("x")), ("d", row("")), ("e", row(""))]
    assert same_code(rows) == "5 configurations are 4 machine codes: a and c are the same one, and take the same time"
    assert same_code(rows[:2]) == same_code(rows[3:]) == ""
