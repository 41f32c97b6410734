"""Finding ncu, running it, and doubting it; the ncu here is a stand-in, the tables are as the real one prints them."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from support.fake import ncu as fake_ncu
from support.fake.ncu import QUERY, VALUES, printed
from support.waiting import HANG_S
from tilesight.validate.counters import ncu as room
from tilesight.validate.counters.ncu import (
    VARIABLE,
    Ncu,
    NcuFailed,
    Repeated,
    copy_doubt,
    count,
    doubt,
    find_ncu,
    reason_in,
    version_of,
)

DENIED = (
    "==PROF== Connected to process 1 (/usr/bin/python3)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions see https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
)
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a stand-in and names it in the environment."""

    def installed(**behaviour: object) -> Path:
        program = fake_ncu.install(tmp_path, **behaviour)
        monkeypatch.setenv(VARIABLE, str(program))
        return program

    return installed


def ncu_of(program: Path) -> Ncu:
    """The stand-in, as `find_ncu` finds it."""
    return Ncu(path=str(program), version="2025.3.1", metrics={"hbm_read_bytes": ("dram__bytes_read.sum",)})


def test_an_installed_ncu_is_found_with_what_it_offers(install: Install) -> None:
    """Path, version, and the metrics of this GPU."""
    program = install(query=QUERY)
    ncu = find_ncu()
    assert (ncu.path, ncu.version) == (str(program), "2025.3.1")
    assert ncu.metrics["hbm_read_bytes"] == ("dram__bytes_read.sum",)


def test_a_missing_ncu_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names what to install and how to name another one."""
    monkeypatch.setenv(VARIABLE, "/nowhere/ncu")
    with pytest.raises(NcuFailed, match=f"not installed: install Nsight Compute, or name it in {VARIABLE}"):
        find_ncu()


def test_ncu_is_looked_for_where_installers_put_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Installers do not always put it on the path; of several versions the newest is taken."""
    for version in ("2023.1.0", "2025.3.1"):
        (tmp_path / version).mkdir()
        fake_ncu.install(tmp_path / version, query=QUERY)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(room, "PLACES", (f"{tmp_path}/*/ncu",))
    assert find_ncu().path == str(tmp_path / "2025.3.1" / "ncu")


def test_an_old_ncu_is_refused(install: Install) -> None:
    """A version that does not know the GPU would count wrongly or not at all."""
    install(version="Version 2021.2.1.0 (build 30182073)")
    with pytest.raises(NcuFailed, match=r"ncu 2021.2.1 is too old: install 2022.3 or newer"):
        find_ncu()


def test_an_ncu_without_the_essential_counters_is_refused(install: Install) -> None:
    """On a GPU that it does not know it offers nothing that we need."""
    install(query="Metric Name\nsm__warps_active  Counter warp\n")
    with pytest.raises(NcuFailed, match="no counters for hbm_read_bytes, hbm_write_bytes, cycles, time_s on this GPU"):
        find_ncu()


def test_a_version_is_read_from_what_ncu_says() -> None:
    """And is None where it says none."""
    assert version_of("NVIDIA (R) Nsight Compute\nVersion 2025.3.1.0 (build 3)\n") == "2025.3.1"
    assert version_of("command not found") is None


def test_counting_returns_the_launches_of_the_table(install: Install) -> None:
    """In order, as the table has them."""
    (launch,) = count(ncu_of(install(table=printed(*VALUES))), ["true"], timeout_s=HANG_S)
    assert launch.kernel == "flash2_kernel"


@pytest.mark.parametrize(
    ("repeated", "mode", "caches"), [("program", "application", "none"), ("launch", "kernel", "all")]
)
def test_the_call_leaves_clocks_alone_and_repeats_what_it_is_told(
    install: Install, repeated: Repeated, mode: str, caches: str
) -> None:
    """A program flushes L2 itself, where a point is cold; launches that are repeated alone find all caches empty."""
    program = install(table=printed(*VALUES))
    count(ncu_of(program), ["python", "work.py"], timeout_s=HANG_S, repeated=repeated)
    words = fake_ncu.command_of(program)
    pairs = set(pairwise(words))
    assert {("--clock-control", "none"), ("--cache-control", caches), ("--replay-mode", mode)} <= pairs
    assert {("--profile-from-start", "off"), ("--print-units", "base"), ("--page", "raw")} <= pairs
    assert ("--metrics", "dram__bytes_read.sum") in pairs
    assert words[-2:] == ["python", "work.py"]


def test_missing_permission_is_told_with_the_remedy(install: Install) -> None:
    """The reason names the error and what the administrator can do; nobody asks for more rights."""
    with pytest.raises(NcuFailed, match=r"ERR_NVGPUCTRPERM.*NVreg_RestrictProfilingToAdminUsers=0"):
        count(ncu_of(install(table=DENIED, status=9)), ["true"], timeout_s=HANG_S)


def test_an_ncu_that_hangs_is_ended(install: Install) -> None:
    """The reason says how long it was waited for."""
    with pytest.raises(NcuFailed, match=r"ncu did not end within 0.5 s"):
        count(ncu_of(install(sleep_s=HANG_S)), ["true"], timeout_s=0.5)


def test_a_program_that_dies_under_ncu_is_told(install: Install) -> None:
    """The status, and the last thing that was said."""
    with pytest.raises(NcuFailed, match="ncu ended with status 1: RuntimeError: illegal address"):
        count(ncu_of(install(status=1, stderr="Traceback\nRuntimeError: illegal address")), ["true"], timeout_s=HANG_S)


def test_a_run_without_a_table_is_told(install: Install) -> None:
    """A program that launched nothing gives no counters."""
    with pytest.raises(NcuFailed, match="ncu printed no table of counters"):
        count(ncu_of(install(table="==WARNING== No kernels were profiled.\n")), ["true"], timeout_s=HANG_S)


def test_an_unforeseen_error_is_told_in_its_own_words() -> None:
    """What no remedy is known for is still one line."""
    assert reason_in("==PROF== x\n==ERROR== The sky fell.\n") == "ncu: The sky fell."
    assert reason_in("==PROF== all well\n") is None


SIZE = 4_026_531_840


@pytest.mark.parametrize(("read", "written"), [(1.0, 1.0), (1.019, 0.985)])
def test_a_copy_that_is_counted_right_raises_no_doubt(read: float, written: float) -> None:
    """Two percent either way are allowed: dirty lines stay in L2, page tables are read."""
    assert copy_doubt([{"hbm_read_bytes": read * SIZE, "hbm_write_bytes": written * SIZE}], SIZE) is None


@pytest.mark.parametrize(
    ("read", "written", "said"), [(1.03, 1.0, "+3.0% of bytes read"), (1.0, 0.5, "-50.0% of bytes written")]
)
def test_a_copy_that_is_counted_wrong_by_more_than_two_percent_is_doubted(
    read: float, written: float, said: str
) -> None:
    """Counters that miss bytes of a known copy would miss bytes of everything else."""
    found_doubt = copy_doubt([{"hbm_read_bytes": read * SIZE, "hbm_write_bytes": written * SIZE}], SIZE)
    assert found_doubt == f"counters are not trusted: a copy of {SIZE} B is counted with {said}"


def test_the_launches_of_one_copy_are_added_up() -> None:
    """Torch splits a copy of 4 GB in two; but if all of it was counted twice, that is doubted."""
    half = {"hbm_read_bytes": SIZE / 2, "hbm_write_bytes": SIZE / 2}
    assert copy_doubt([half, half], SIZE) is None
    assert "+100.0% of bytes read" in str(copy_doubt([half] * 4, SIZE))
    assert "no launch was counted" in str(copy_doubt([], SIZE))


def test_a_copy_without_a_count_is_doubted() -> None:
    """No value is not a right value."""
    assert "no hbm_write_bytes" in str(copy_doubt([{"hbm_read_bytes": SIZE}], SIZE))


def test_the_copy_is_large_beside_the_l2(install: Install) -> None:
    """Dirty lines that stay behind in L2 are at most a sixty-fourth of it, below the two percent."""
    program = install(table=printed(*VALUES))
    said = doubt(ncu_of(program), l2_bytes=62_914_560)
    assert int(fake_ncu.command_of(program)[-1]) == SIZE
    assert said is not None  # the table is of something else


def test_a_copy_that_cannot_be_counted_is_told(install: Install) -> None:
    """The probe for permission and the check are one run."""
    said = doubt(ncu_of(install(table=DENIED, status=9)), l2_bytes=1 << 20)
    assert "ERR_NVGPUCTRPERM" in str(said)
