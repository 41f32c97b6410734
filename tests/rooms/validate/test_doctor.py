"""The doctor on planted machines: each thing missing is named with its remedy, and only what validate needs is bad."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.validate.doctor import doctor
from tilesight.validate.doctor.doctor import Check, Host

from tilesight.cli.main import main

PROBLEM = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
H200 = "NVIDIA H200, 9.0, 580.159.04, 143771 MiB, 143157 MiB\n"
VERSIONS = {
    "torch": "2.11.0+cu130",
    "triton": "3.6.0",
    "cuda-bindings": "13.0.3",
    "nvidia-ml-py": "13.580.82",
}


def host(smi: str | None = H200, apps: str = "", versions: dict[str, str] | None = None, **changes: Any) -> Host:
    """A machine with all that is needed, but for what is changed."""

    def command(words: Sequence[str]) -> str | None:
        return apps if "compute-apps" in words[1] else smi

    whole = Host(
        command=command,
        version=(VERSIONS if versions is None else versions).get,
        torch_gpu=lambda: {"cuda": "13.0", "available": True, "why": ""},
        counters=lambda: ("2025.3.1", ""),
    )
    return replace(whole, **changes)


def check(name: str, machine: Host) -> Check:
    """One check of a machine."""
    (named,) = [checked for checked in doctor.examine(machine, PROBLEM) if checked.name == name]
    return named


def test_a_whole_machine_passes() -> None:
    """Nothing is bad, and nothing has a remedy."""
    checks = doctor.examine(host(), PROBLEM)
    assert {checked.state for checked in checks} == {"ok"}
    assert doctor.can_validate(checks)
    assert not [checked for checked in checks if checked.remedy]
    assert [checked.name for checked in checks] == [
        *["driver", "GPU 0", "torch", "triton", "torch on the GPU", "ncu", "cuda.bindings", "NVML"],
        *["memory", "other processes"],
    ]


def test_a_bare_machine_names_all_that_is_missing() -> None:
    """No driver, no packages: each with its remedy, and no question is asked that could not be answered."""

    def never(*_: Any) -> Any:
        raise AssertionError("asked")

    bare = host(smi=None, versions={}, torch_gpu=never, counters=never)
    checks = doctor.examine(bare, PROBLEM)
    assert [checked.name for checked in checks if checked.state == "bad"] == ["driver", "torch", "triton"]
    assert all(checked.remedy for checked in checks)
    assert not doctor.can_validate(checks)


@pytest.mark.parametrize(
    ("name", "machine", "state", "seen"),
    [
        ("driver", host(smi="No devices were found\n"), "note", "nvidia-smi names no GPU: No devices were found"),
        ("GPU 0", host(smi="Tesla T4, 7.5, 580.1, 15360 MiB, 15000 MiB"), "bad", "Tesla T4, compute capability 7.5"),
        ("GPU 1", host(smi=H200 + "Tesla T4, 7.5, 580.1, 15360 MiB, 15 MiB"), "note", "Tesla T4"),
        ("torch", host(versions=VERSIONS | {"torch": "2.4.1"}), "bad", "2.4.1 is too old"),
        ("triton", host(versions=VERSIONS | {"triton": "3.3.1"}), "bad", "3.3.1 is too old"),
        ("triton", host(versions=VERSIONS | {"triton": "4.0.0"}), "note", "4.0.0, which is untested"),
        (
            "torch on the GPU",
            host(torch_gpu=lambda: {"cuda": None, "available": False, "why": ""}),
            "bad",
            "this torch is built without CUDA",
        ),
        (
            "torch on the GPU",
            host(torch_gpu=lambda: {"cuda": "13.0", "available": False, "why": "driver too old"}),
            "bad",
            "torch (CUDA 13.0) sees no GPU: driver too old",
        ),
        ("ncu", host(counters=lambda: ("2025.3.1", "no permission")), "note", "2025.3.1: no counters"),
        ("ncu", host(counters=lambda: ("", "ncu is not installed")), "note", "no counters"),
        ("memory", host(smi="NVIDIA H200, 9.0, 580.1, 143771 MiB, 100 MiB"), "bad", "100 MiB free of 140 GiB"),
        ("other processes", host(apps="4242, python3, 1024 MiB\n"), "note", "1: 4242, python3, 1024 MiB"),
    ],
)
def test_each_thing_that_is_wrong_is_found(name: str, machine: Host, state: str, seen: str) -> None:
    """With its state, what was found, and a remedy."""
    looked = check(name, machine)
    assert looked.state == state
    assert looked.seen.startswith(seen)
    assert looked.remedy


def test_smi_output_that_is_no_table_names_no_gpu() -> None:
    """Errors of nvidia-smi go to stdout as well."""
    assert doctor.gpus_in("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n") == []
    (gpu,) = doctor.gpus_in(H200)
    assert (gpu.name, gpu.capability, gpu.driver) == ("NVIDIA H200", (9, 0), "580.159.04")
    assert (gpu.total_bytes, gpu.free_bytes) == (143771 << 20, 143157 << 20)


def test_the_text_ends_with_the_verdict() -> None:
    """And names what is bad in it."""
    good, bad = (doctor.doctor_text(doctor.examine(machine, PROBLEM), 100) for machine in (host(), host(smi="x, y")))
    assert good.splitlines()[-1] == "validate can run here"
    assert bad.splitlines()[-1] == "validate can run here"
    none = doctor.examine(host(smi=None, versions={}), PROBLEM)
    assert doctor.doctor_text(none, 100).splitlines()[-1] == "validate cannot run here: driver, torch, triton"


def test_a_program_that_is_missing_or_fails_says_nothing() -> None:
    """Neither raises."""
    assert doctor.output_of(["no-such-program-anywhere"]) is None
    assert doctor.output_of(["false"]) is None
    assert doctor.output_of(["echo", "x"]) == "x\n"
    assert doctor.version_of("no-such-package-anywhere") is None


@pytest.mark.parametrize("machine", [host(), host(smi=None, versions={})])
def test_the_command_exits_with_the_verdict(
    machine: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 where validate can run, else 1; JSON says the same."""
    monkeypatch.setattr(doctor, "this_host", lambda: machine)
    can = doctor.can_validate(doctor.examine(machine, PROBLEM))
    assert main(["doctor", "--json"]) == (0 if can else 1)
    document = json.loads(capsys.readouterr().out)
    assert document["can_validate"] == can
    assert document["schema"] == "tilesight.doctor/1"
    assert main(["doctor"]) == (0 if can else 1)


def test_this_machine_can_be_asked() -> None:
    """Whatever is or is not here, the doctor answers and never raises."""
    here = replace(doctor.this_host(), counters=lambda: ("", "not asked"))
    checks = doctor.examine(here, PROBLEM)
    assert {"driver", "torch", "triton", "ncu"} <= {checked.name for checked in checks}


@pytest.mark.parametrize("package", ["torch", "triton"])
def test_who_only_predicts_is_told_so(package: str) -> None:
    """What runs kernels brings CUDA; what predicts them needs none of it, and both are named."""
    missing = {name: version for name, version in VERSIONS.items() if name != package}
    remedy = check(package, host(versions=missing)).remedy
    assert "pip install '.[gpu]'" in remedy
    assert "needs no GPU, the predict extra (pip install '.[predict]' --extra-index-url" in remedy
