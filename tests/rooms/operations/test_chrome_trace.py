"""The timeline of a step: its kernels last as long as the rows say, and stand beside their modules and operations."""

import json

import pytest
from support.steps import layered
from tilesight.simulator.operations.chrome_trace import chrome_trace


def test_slices_last_as_long_as_the_rows() -> None:
    """One for each kernel with a price, a mark for each without; none begins before the one before has ended."""
    profile = layered()
    events = json.loads(chrome_trace(profile))["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    priced = [row for row in profile.rows if row.kernel.source != "refused"]
    assert [event["dur"] for event in kernels] == pytest.approx([row.time_s * 1e6 for row in priced])
    assert [event["ts"] for event in kernels] == pytest.approx([row.start_s * 1e6 for row in priced])
    assert [event["name"] for event in events if event.get("cat") == "refused"] == ["sort"]
    first = kernels[0]["args"]
    assert (first["module"], first["operation"], first["source"]) == ("layers.0.up", "mm", "matmul")
    assert (first["HBM read bytes"], first["HBM write bytes"]) == (2000, 1000)


def test_modules_and_operations_are_tracks_of_their_own() -> None:
    """A slice for each run of kernels of one module; of an operation for all of its kernels, with their number."""
    events = json.loads(chrome_trace(layered(1)))["traceEvents"]
    modules = [event for event in events if event.get("cat") == "module"]
    assert [event["name"] for event in modules] == ["layers.0.up", "layers.0", "layers.1"]
    operations = [event for event in events if event.get("cat") == "cpu_op"]
    assert [event["name"] for event in operations] == ["aten::mm", "aten::gelu", "aten::cumsum", "aten::sort"]
    of_kernels = [event["args"]["External id"] for event in events if event.get("cat") == "kernel"]
    assert of_kernels == [0, 1, 2, 2]
    assert {(event["pid"], event["tid"]) for event in modules}.isdisjoint(
        (event["pid"], event["tid"]) for event in operations
    )
