"""Arguments in plain text become what the kernel is passed; what it does not take is said in one line."""

import struct
from pathlib import Path

import numpy as np
import pytest
from support.given_cubins import cubin, launch
from tilesight.kernels.given.arguments import Tensor, argument_of
from tilesight.kernels.given.launch import calls_of, read_launches
from tilesight.simulator.emulator.storage import STORAGE_SHIFT
from tilesight.simulator.emulator.threads import special_registers, thread_numbers
from tilesight.simulator.emulator.tma.descriptor import descriptor_of
from tilesight.simulator.refusal import UserError
from tilesight.simulator.sass.constants import Parameter, constant_bank

from tilesight import Launch

F = "tensor:fp32[64]"
HERE = Path()


@pytest.mark.parametrize(
    ("text", "size", "raw"),
    [
        ("int32:-2", 4, struct.pack("<i", -2)),
        ("4096", 8, struct.pack("<q", 4096)),
        (7, 1, b"\x07"),
        ("uint64:0xffffffffffffffff", 8, b"\xff" * 8),
        ("fp16:0.5", 2, struct.pack("<e", 0.5)),
        ("bf16:1.0", 2, b"\x80\x3f"),
        (True, 1, b"\x01"),
        ("bytes:000102ff", 4, b"\x00\x01\x02\xff"),
    ],
)
def test_numbers_lie_in_memory_as_in_c(text: object, size: int, raw: bytes) -> None:
    """A kernel would be passed another number."""
    argument, _ = argument_of("n", text, size, {}, HERE)
    assert argument.value.to_bytes(size, "little") == raw  # type: ignore[union-attr]


@pytest.mark.parametrize(("text", "size"), [("0.5", 4), ("fp32:0.5", 4), (0.5, 8), ("fp64:0.5", 8)])
def test_floats_are_told_as_floats(text: object, size: int) -> None:
    """They are shown, and matched between versions of a launch."""
    argument, _ = argument_of("scale", text, size, {}, HERE)
    assert argument.value == 0.5 and argument.kind == f"fp{8 * size}"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "size", "said"),
    [
        ("int32:5", 8, "has 4 bytes, the parameter 8"),
        ("int8:300", 1, "is beyond the values of int8"),
        ("int64:1" + "0" * 400, 8, "is beyond the values of int64"),
        ("1" + "0" * 400, 4, "is beyond the values of uint32"),
        ("int32:0.5", 4, "must be a whole number"),
        ("fp32:nan", 8, "has 4 bytes"),
        ("int64:inf", 8, "must be a whole number"),
        ("what", 4, "must be such as"),
        ("0.5", 2, "must be such as"),
        ("tensor:fp12[4]", 8, "types are"),
        ("tensor:fp32[0]", 8, "axes of 1 or more"),
        ("tensor:fp32[4]@none.npy", 8, "cannot be read"),
        ("bytes:0", 1, "hexadecimal"),
        ("pointer:q", 8, r"must be within a tensor such as pointer:x\+512, of none so far"),
        ("struct:n=int32:5", 8, "must be such as x@0="),
        ("struct:n@0=5", 8, "a member has a type"),
        ("struct:n@6=int32:5", 8, "a struct of 8 bytes ends before it"),
        ("tma:q,box=64", 128, "'q': must be an argument tensor"),
        ("tma:fp16[64,64]", 128, "must have a box"),
        ("tma:fp16[64,64],box=64x64,layout=3", 128, "must be one of box, shape, strides, swizzle"),
        ("tma:fp16[64,64],box=64x64,swizzle=64", 128, "at most 64 with swizzle=64"),
        ("tma:fp16[64,60],box=64x32", 128, "must be multiples of 16"),
        ("tma:fp16[512,64],box=512x64", 128, "must be 1 to 256"),
        ("tma:fp16[64,128],box=64x64,shape=2x64x64,strides=64x128", 128, "strides 2: shape and box must have as many"),
        ("tma:fp16[64,128],box=1x64x64,shape=2x64x64,strides=128x128", 128, "shape has 8,192 elements"),
        ("tma:fp16[64,128],box=1x64x64,shape=2x32x64,strides=60x128", 128, "must be multiples of 16"),
        ("tensor:fp32[64]+256", 8, "must point within its 256 bytes"),
    ],
)
def test_what_is_no_argument_is_said_in_one_line(text: object, size: int, said: str) -> None:
    """It names the argument, what was given, and what is allowed."""
    with pytest.raises(UserError, match=said) as error:
        argument_of("x", text, size, {}, HERE)
    assert str(error.value).startswith("argument x = ") and "\n" not in str(error.value)


def test_tensors_may_have_values(tmp_path: Path) -> None:
    """Addresses that depend on data could not be known."""
    np.save(tmp_path / "at.npy", np.arange(64, dtype=np.int32))
    tensor, new = argument_of("at", "tensor:int32[64]@at.npy", 8, {}, tmp_path)
    assert (
        {"at": tensor} == new
        and isinstance(tensor, Tensor)
        and tensor.values == np.arange(64, dtype=np.int32).tobytes()
    )
    filled, _ = argument_of("at", "tensor:int32[64]=3", 8, {}, tmp_path)
    assert isinstance(filled, Tensor) and filled.fill == b"\x03\0\0\0"
    with pytest.raises(UserError, match="the file has 256 bytes, the tensor 260"):
        argument_of("at", "tensor:int32[65]@at.npy", 8, {}, tmp_path)


def test_pointers_lead_into_tensors() -> None:
    """A view would be read from the begin of its memory, or beyond its end."""
    (call,) = calls_of([launch("add", 1, 64, x=F, y="pointer:x+128", z="pointer:x", n=16)], 90)
    x = call.arguments["x"]
    assert (call.arguments["y"], call.arguments["z"]) == (x + 128, x)
    assert [storage.name for storage in call.storages] == ["x"]
    with pytest.raises(UserError, match="must be within a tensor"):
        calls_of([launch("add", 1, 64, x=F, y="pointer:x+256", z="pointer:x", n=16)], 90)


def test_a_pointer_may_begin_within_memory_of_its_own() -> None:
    """What lies before it, as padding that aligns rows, could not be said."""
    (call,) = calls_of([launch("add", 1, 64, x=f"{F}+128", y=f"{F}+16", z=F, n=16)], 90)
    begin = {storage.name: storage.address for storage in call.storages}
    assert (call.arguments["x"], call.arguments["y"]) == (begin["x"] + 128, begin["y"] + 16)


def test_arrays_are_tensors_with_their_data() -> None:
    """Python would have to write a file first."""
    tensor, new = argument_of("at", np.arange(6, dtype=np.int32).reshape(2, 3), 8, {}, HERE)
    assert new == {"at": tensor} and isinstance(tensor, Tensor)
    assert (tensor.dtype, tensor.shape, tensor.values) == ("int32", (2, 3), np.arange(6, dtype=np.int32).tobytes())
    with pytest.raises(UserError, match="an array of complex64"):
        argument_of("at", np.zeros(2, dtype=np.complex64), 8, {}, HERE)


def test_a_struct_has_its_members_where_they_are_said_to_be() -> None:
    """A kernel that takes all its parameters in one struct would read other ones."""
    members = "struct:x@0=tensor:fp32[64];n@8=int16:-2;scale@12=fp32:0.5;y@16=tensor:fp32[32]"
    (call,) = calls_of([launch("scale", 1, 256, x=F, y="tensor:fp32[32]", shape=members)], 90)
    raw = int(call.arguments["shape"]).to_bytes(24, "little")
    assert raw == struct.pack("<qhxxfq", call.arguments["x"], -2, 0.5, call.arguments["y"])
    assert [storage.name for storage in call.storages] == ["x", "y"]


def test_descriptors_are_those_of_the_driver() -> None:
    """A box of fewer axes than the tensor has its outer axes as one, as host code describes them."""
    argument, named = argument_of("d", "tma:fp16[4,512,128],box=64x64,swizzle=128", 128, {}, HERE)
    new = named["d"]
    assert (argument.shape, argument.box) == ((2048, 128), (64, 64))  # type: ignore[union-attr]
    other, _ = argument_of("d", "tma:q,box=1x64x64,shape=8x256x128", 128, {"q": new}, HERE)
    assert (other.tensor, other.shape) == ("q", (8, 256, 128))  # type: ignore[union-attr]
    call = calls_of([launch("scale", 1, 256, x=F, y=F, shape="bytes:" + "00" * 24)], 90)[0]
    assert call.arguments["shape"] == 0 and call.job["signature"][2] == ["shape", "bytes"]


def test_a_descriptor_describes_its_tensor() -> None:
    """TMA would go through other rows."""
    args = {"map": "tma:fp16[4,512,128],box=1x64x64", "to": F, "columns": 128, "tiles": 2}
    (call,) = calls_of([launch("copy", 8, 128, file="tma", **args)], 90)
    image = int(call.arguments["map"]).to_bytes(128, "little")
    words = [(np.full((1, 1, 1), word, dtype=np.int64), True) for word in struct.unpack("<32I", image)]
    read = descriptor_of(words)
    assert read is not None and read.box == (64, 64, 1) and read.strides == (2, 256, 512 * 256)
    assert [storage.name for storage in call.storages] == ["map", "to"]
    assert int(read.address.flat[0]) == 1 << STORAGE_SHIFT


def test_axes_of_a_descriptor_may_lie_elsewhere() -> None:
    """Columns of a tile that are an axis of their own would be taken for rows that follow each other."""
    args = {"map": "tma:fp16[512,128],box=1x64x64,shape=2x512x64,strides=64x128", "to": F, "columns": 128, "tiles": 2}
    (call,) = calls_of([launch("copy", 8, 128, file="tma", **args)], 90)
    image = int(call.arguments["map"]).to_bytes(128, "little")
    read = descriptor_of([(np.full((1, 1, 1), word, dtype=np.int64), True) for word in struct.unpack("<32I", image)])
    assert read is not None and read.box == (64, 64, 1) and read.strides == (2, 256, 128)
    assert [int(size.flat[0]) for size in read.sizes] == [64, 512, 2]


def test_small_parameters_may_share_a_word() -> None:
    """Two bytes that follow each other would be read as one of them."""
    parameters = [Parameter(name=f"p{n}", type="uint8", address=0x210 + n, size_bytes=1) for n in range(6)]
    bank = constant_bank(90, parameters, {f"p{n}": n + 1 for n in range(6)}, grid=(1, 1, 1), threads=(32, 1, 1))
    assert (bank[0x210], bank[0x214]) == (0x04030201, 0x0605)


def test_threads_of_a_block_stand_x_first() -> None:
    """A tile would be read along its columns."""
    numbers = np.arange(64, dtype=np.int64).reshape(1, 2, 32)
    special = thread_numbers(numbers, (16, 2, 2))
    assert (
        special["SR_TID.X"][0] + 16 * special["SR_TID.Y"][0] + 32 * special["SR_TID.Z"][0]
    ).tolist() == numbers.tolist()
    assert special["SR_TID.Z"][0].max() == 1 == special["SR_TID.Y"][0].max()
    alone = special_registers((1, 1, 1), np.arange(1), 2)
    assert alone["SR_TID.X"][0].tolist() == numbers.tolist() and not alone["SR_TID.Y"][0].any()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kernel": "sub"}, "kernel 'sub': must be one of add, call"),
        ({"args": {"x": F}}, "takes 4 arguments of 8, 8, 8, 4 bytes, 1 are given: x"),
        ({"grid": (1, 70_000)}, "grid = 1 x 70000 x 1: must be at most"),
        ({"grid": 0}, "grid = 0"),
        ({"grid": "12"}, "grid = '12'"),
        ({"block": (2048,)}, "block = 2048 x 1 x 1: must be at most 1024 x 1024 x 64"),
        ({"cluster": 2}, "clusters of CTAs are not modelled; without them each CTA loads what multicast shares"),
        ({"smem": -1}, "smem = -1"),
        ({"kernel": "reduce", "block": 512, "args": {"x": F, "s": F, "n": 1}}, "__launch_bounds__ allow 256 threads"),
        ({"cubin": "none.cubin"}, "none.cubin: cannot be read"),
        ({"cubin": cubin("mini", "sm_80")}, "is compiled for sm_80, the device executes sm_90"),
    ],
)
def test_launches_that_the_driver_refuses(changes: dict[str, object], said: str) -> None:
    """They would be predicted, and then not run."""
    usual = {"cubin": cubin("basic"), "kernel": "add", "block": 64, "args": {"x": F, "y": F, "z": F, "n": 64}}
    with pytest.raises(UserError, match=said) as error:
        calls_of([Launch(**(usual | changes))], 90)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_a_tensor_of_one_name_is_one_memory() -> None:
    """What one launch writes the next one finds in L2."""
    first = launch("add", 1, 64, x=F, y=F, z=F, n=64)
    second = launch("add", 1, 64, z=F, y=F, out=F, n=64)
    calls = calls_of([first, second], 90)
    assert calls[0].arguments["z"] == calls[1].arguments["z"] != calls[1].arguments["out"]
    with pytest.raises(UserError, match="another tensor in an earlier launch"):
        calls_of([first, launch("add", 1, 64, z="tensor:fp32[65]", y=F, out=F, n=64)], 90)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("launch = 1", "must hold tables"),
        ("[[launch]]\nkernel = 'add'", "launch 1: cubin: must be the path"),
        ("[[launch]]\ncubin = 'a'\ngird = 1", "'gird': must be one of cubin, kernel, grid"),
        ("[[launch]]\ncubin = 'a'\nargs = 5", "launch 1: args: must be a table"),
        ("[[launch", "is not TOML"),
    ],
)
def test_files_of_launches(text: str, said: str, tmp_path: Path) -> None:
    """A key that is spelt wrong would be left out in silence."""
    path = tmp_path / "launch.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read_launches(path)
    path.write_text("[[launch]]\ncubin = 'k.cubin'\ngrid = [4, 2]\nargs = { x = 'tensor:fp32[64]', n = 64 }")
    (read,) = read_launches(path)
    assert (read.folder, read.grid, list(read.args)) == (tmp_path, [4, 2], ["x", "n"])
