"""How a launch shares the SMs: worked out once for each launch of a simulation, and the same for all that ask."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.strategies import TOY
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import DoesNotFit
from tilesight.simulator.residency import residency
from tilesight.simulator.residency.occupancy import occupancy
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.simulate import launches_of, simulate
from tilesight.simulator.simulate_launches import simulate_launches

H200 = load_device("h200")
PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=1024, seqlen_k=1024, head_dim=64)


def flash2(ctas: int) -> Launch:
    (launch,) = launches_of(PROBLEM, "flash2", None, H200)
    return replace(launch, grid=(ctas, 1, 1))


@pytest.mark.parametrize(("sms_filled", "sharing"), [(0.5, 1), (1.0, 1), (1.5, 2), (100.0, 0)])
def test_a_small_grid_leaves_room_on_its_sms(sms_filled: float, sharing: int) -> None:
    """A CTA has an SM to itself while there is one for each; no more run at a time than the grid has, or than fit."""
    launch = flash2(int(sms_filled * H200.sms))
    shared = residency_of(launch, H200)
    most = occupancy(launch.resources, launch.warps_per_cta, H200).ctas_per_sm
    assert shared.ctas_per_sm == most
    assert shared.ctas_per_busy_sm == (sharing or most)
    assert shared.concurrent_ctas == min(launch.cta_count, most * H200.sms)


def test_a_cta_that_fits_no_sm_is_refused_before_anything_runs() -> None:
    """Whoever made the launch; the text names resource, need and limit."""
    launch = flash2(1)
    wide = replace(launch, resources=replace(launch.resources, smem_bytes_per_cta=1 << 20))
    with pytest.raises(DoesNotFit, match="shared memory: a CTA needs 1048576 B"):
        residency_of(wide, TOY)
    with pytest.raises(DoesNotFit, match="shared memory: a CTA needs 1048576 B"):
        simulate_launches([wide], H200)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the launches whose residency has been worked out, in order."""
    names: list[str] = []

    def counted(launch: Launch, device: object) -> residency.Residency:
        names.append(launch.name)
        return residency_of(launch, device)  # type: ignore[arg-type]

    monkeypatch.setattr("tilesight.simulator.simulate_launches.residency_of", counted)
    return names


@pytest.mark.parametrize("schedule", ["flash2", "naive", "unfused"])
@pytest.mark.parametrize("cost", ["compiled", "tiles"])
def test_a_simulation_works_it_out_once_for_each_launch(schedule: str, cost: str, asked: Sequence[str]) -> None:
    """Costs, engine and figures take it as an argument, so that none of them can think otherwise."""
    prediction = simulate(PROBLEM, schedule=schedule, cost=cost)
    assert asked == [launch.name for launch in prediction.launches]


def test_nobody_downstream_works_it_out_again(asked: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of occupancy is asked as often as there are launches."""
    calls = []
    monkeypatch.setattr(residency, "occupancy", lambda *needs: calls.append(needs) or occupancy(*needs))
    launches = launches_of(PROBLEM, "naive", None, H200)
    simulate_launches(launches, H200, cost="tiles")
    assert len(calls) == len(asked) == len(launches) == 3
