"""What a cubin says of its kernels, and what is said of a file that is none."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.given_cubins import cubin
from tilesight.kernels.compile.cubin import kernel_code, source_lines
from tilesight.kernels.compile.kernel_info import NoCubin, answer_of, read_cubin
from tilesight.kernels.given.launch import calls_of
from tilesight.simulator.refusal import UserError

from tilesight import Launch

FIRST = {"sm_80": 0x160, "sm_90": 0x210, "sm_100a": 0x380, "sm_120": 0x380}
"""Target -> where parameters begin in constant bank 0, as `cuobjdump -elf` prints it."""


@pytest.mark.parametrize("target", FIRST)
def test_parameters_and_resources_are_those_that_cuobjdump_prints(target: str) -> None:
    """A launch would be given other registers, or its arguments in other places."""
    kernels = read_cubin(cubin("mini", target))
    add, reduce = kernels["add"], kernels["reduce"]
    assert add.parameters == tuple((FIRST[target] + at, size) for at, size in ((0, 8), (8, 8), (16, 8), (24, 4)))
    assert (add.capability, add.is_exact) == (int(target[3:].rstrip("a")), target.endswith("a"))
    assert (add.registers, add.smem_bytes, add.most_threads) == (12, 0, 0)
    assert (reduce.smem_bytes, reduce.most_threads, reduce.frame_bytes) == (32, 256, 0)
    # cuobjdump --dump-resource-usage: REG of `reduce`
    assert reduce.registers == {"sm_80": 12, "sm_90": 14, "sm_100a": 13, "sm_120": 14}[target]


def test_each_kernel_of_a_file_has_its_own_code_and_lines() -> None:
    """Of a file with several kernels another one's lines would be shown."""
    data = cubin("basic")
    assert len(read_cubin(data)) == 15
    code = kernel_code(data, "add")
    assert code is not None and code.name == "add" and len(code.text) == 0x200
    assert kernel_code(data) is None
    lines = {line for _, _, line in source_lines(data, "add")}
    assert lines <= {12, 13, 14, 15, 16} and 15 in lines
    assert {file for _, file, _ in source_lines(data, "gemm")} == {"/basic.cu"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is no cubin"),
        (b"//\n.version 8.7\n.target sm_90a\n.address_size 64\n", "is PTX"),
        (b"\x50\xed\x55\xba" + bytes(100), "is a fat binary"),
        (b"\x7fELF\x02\x01\x01" + bytes(100), "of another machine"),
        (cubin("mini", "sm_90")[:3000], "is not whole"),
    ],
)
def test_what_a_file_is_that_is_no_cubin(data: bytes, said: str) -> None:
    """PTX, a fat binary and half a download each need something else to be done."""
    with pytest.raises(NoCubin, match=said) as error:
        read_cubin(data)
    assert "\n" not in str(error.value)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.booleans())
def test_bytes_that_changed_end_in_one_line_or_in_a_launch(seed: int, changes: int, cut: bool) -> None:
    """A file that is broken would end in a traceback, or never."""
    drawn, data = random.Random(seed), bytearray(cubin("mini", "sm_90"))
    for _ in range(changes):
        data[drawn.randrange(64 if drawn.random() < 0.3 else len(data))] = drawn.randrange(256)
    broken = bytes(data[: drawn.randrange(len(data))] if cut else data)
    args = {"x": "tensor:fp32[64]", "y": "tensor:fp32[64]", "z": "tensor:fp32[64]", "n": 64}
    try:
        (call,) = calls_of([Launch(cubin=broken, kernel="add", block=64, args=args)], 90)
        answer = answer_of(call.job)
        kernel_code(broken, "add")
    except UserError as error:
        assert str(error).startswith("cubin: ") and "\n" not in str(error)
    else:
        assert "reason" in answer or len(answer["code"]["parameters"]) == 4
