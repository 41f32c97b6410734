"""One listing of many kernels says what cuobjdump says of each, for every architecture; lines are nvdisasm's."""

import re

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.capture.lowering import lower
from tilesight.kernels.compile import disassemble as disassembling
from tilesight.kernels.compile.cubin import kernel_code, source_lines
from tilesight.kernels.compile.disassemble import Listing, disassemble, inspect
from tilesight.kernels.compile.worker import compiled_kernel
from tilesight.simulator.sass.decode import decode
from zoo import rowwise, tiled

import tilesight

LINE = re.compile(r'^\s*//## File "([^"]+)", line (\d+)')
PLACE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/")
OPCODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.M)
CAPABILITIES = (80, 86, 89, 90, 100, 120)


def cubins(capability: int) -> list[bytes]:
    """Of three kernels: a sum, rows with a division (a call inside of the code), a product."""
    with tilesight.capture() as launches:
        x, y, z = (torch.empty(256, 256, device="meta", dtype=torch.float16) for _ in range(3))
        rowwise.add[64,](x, y, z, 65536, BLOCK=1024)
        rowwise.softmax_in_pieces[256,](x, y, 256, BLOCK=128)
        tiled.gemm_grouped[4,](x, y, z, 256, 256, 256, BM=128, BN=128, BK=64, GROUP=8, num_warps=8)
    return [compiled_kernel(dict(lower(launch, capability).job)).asm["cubin"] for launch in launches]


def printed(cubin: bytes) -> list[list[object]]:
    """[address, file, line] where the line changes, as `nvdisasm -g` prints it."""
    changes: list[list[object]] = []
    now: list[object] = []
    for line in inspect(cubin, "-g", "-c", tool="nvdisasm").splitlines():
        if match := LINE.match(line):
            now = [match[1], int(match[2])]
        elif (place := PLACE.match(line)) and now and (not changes or changes[-1][1:] != now):
            changes.append([int(place[1], 16), *now])
    return changes


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_listing_of_all_is_that_of_each(capability: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instructions, targets of jumps and control bits of kernels that lie one after the other; one run for all."""
    runs: list[str] = []
    codes = cubins(capability)

    def counted(data: bytes, *switches: str, tool: str = "cuobjdump") -> str:
        runs.append(tool)
        return inspect(data, *switches, tool=tool)

    monkeypatch.setattr(disassembling, "inspect", counted)
    listings = disassemble([(code, capability, "") for code in codes])
    assert runs == ["nvdisasm"]
    for code, listing in zip(codes, listings, strict=True):
        alone = inspect(code, "-sass")
        assert decode(listing.sass) == decode(alone)
        assert sum(listing.opcodes.values()) == len(decode(alone)) == len(OPCODE.findall(alone))
        assert source_lines(code) == printed(code) != []


def test_targets_of_jumps_are_counted_from_the_kernels_begin() -> None:
    """A kernel that lies behind another one lists as it does in front."""
    code = cubins(90)[-1]
    first, second = disassemble([(code, 90, ""), (code, 90, "")])
    assert first == second
    assert any(instruction.target for instruction in decode(first.sass))


def test_code_that_is_changed_when_it_is_loaded_is_left_to_cuobjdump(monkeypatch: pytest.MonkeyPatch) -> None:
    """As are kernels that the listing of them all cuts short; the others are taken from it."""
    codes = cubins(80)
    whole = [Listing(*listing) for listing in disassemble([(code, 80, "") for code in codes])]
    moved = codes[0]
    monkeypatch.setattr(
        disassembling, "kernel_code", lambda cubin, kernel: None if cubin is moved else kernel_code(cubin)
    )
    runs: list[str] = []

    def cut(data: bytes, *switches: str, tool: str = "cuobjdump") -> str:
        runs.append(tool)
        said = inspect(data, *switches, tool=tool)
        return said[: int(0.9 * len(said))] if tool == "nvdisasm" else said

    monkeypatch.setattr(disassembling, "inspect", cut)
    listings = disassemble([(code, 80, "") for code in codes])
    assert runs == ["nvdisasm", "cuobjdump", "cuobjdump"]
    assert [decode(listing.sass) for listing in listings] == [decode(listing.sass) for listing in whole]
    assert [listing.opcodes for listing in listings] == [listing.opcodes for listing in whole]
