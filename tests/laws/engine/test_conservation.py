"""No byte appears or gets lost between device memory, L2, L1 and the SMs.

The laws of a kind of prediction look at the same ones: predicting takes most of the time.
"""

from hypothesis import given, settings
from laws.cases import Case, bytes_touched_first, cases
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.prediction.prediction import Prediction

laws = settings(max_examples=150)


def what_sms_ask_for_comes_from_l2_or_l1(case: Case, prediction: Prediction) -> None:
    """Fill and L1 hits add up to the tally, launch by launch; so do stores."""
    for seen, launch in zip(prediction.launches, case.launches, strict=True):
        asked = tally(launch.program)
        assert seen.traffic.smem_fill_bytes + seen.traffic.l1_hit_bytes == sum(asked.load_bytes.values())
        assert seen.traffic.l2_write_bytes == sum(asked.store_bytes.values())


def what_l2_serves_it_has_or_fetches(prediction: Prediction) -> None:
    """Hits and device memory reads add up to the reads from L2, and no more is read from L2 than reaches the SMs."""
    for seen in prediction.launches:
        traffic = seen.traffic
        assert traffic.l2_hit_bytes + traffic.hbm_read_bytes == traffic.l2_read_bytes
        assert traffic.l2_read_bytes <= traffic.smem_fill_bytes
        assert 0 <= traffic.l2_hit_fraction <= 1


def device_memory_gives_every_input_byte_that_is_used(case: Case, prediction: Prediction) -> None:
    """From an empty L2, at least once; and takes at most what was stored."""
    total = prediction.total
    assert total.hbm_read_bytes >= bytes_touched_first(case.launches, "load")
    assert total.hbm_write_bytes <= total.l2_write_bytes


def the_fabric_carries_at_most_what_sms_move(case: Case, prediction: Prediction) -> None:
    """With two partitions, reads once more at most and stores at most once; with one, nothing."""
    for seen in prediction.launches:
        traffic = seen.traffic
        assert traffic.fabric_bytes <= traffic.l2_read_bytes + traffic.l2_write_bytes
        assert case.device.l2_partitions == 2 or traffic.fabric_bytes == 0


@laws
@given(case=cases())
def test_bytes_are_conserved_from_an_empty_l2(case: Case) -> None:
    """Between SMs and L2, L2 and device memory, and the partitions of L2."""
    prediction = case.simulate()
    what_sms_ask_for_comes_from_l2_or_l1(case, prediction)
    what_l2_serves_it_has_or_fetches(prediction)
    device_memory_gives_every_input_byte_that_is_used(case, prediction)
    the_fabric_carries_at_most_what_sms_move(case, prediction)


@laws
@given(case=cases())
def test_a_repeated_pipeline_writes_its_output_or_keeps_it(case: Case) -> None:
    """Warm, too, no more is written than was stored in the run before and in this one."""
    prediction = case.simulate(l2="warm")
    total = prediction.total
    assert total.hbm_write_bytes <= 2 * total.l2_write_bytes
    what_sms_ask_for_comes_from_l2_or_l1(case, prediction)
    what_l2_serves_it_has_or_fetches(prediction)
    the_fabric_carries_at_most_what_sms_move(case, prediction)


@laws
@given(case=cases(schedules=("flash2",)))
def test_line_by_line_conserves_bytes_too(case: Case) -> None:
    """The same laws at the other resolution."""
    prediction = case.simulate(resolution="line")
    what_l2_serves_it_has_or_fetches(prediction)
    device_memory_gives_every_input_byte_that_is_used(case, prediction)
    the_fabric_carries_at_most_what_sms_move(case, prediction)
