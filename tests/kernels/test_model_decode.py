"""A step of decoding of a model: predicted from its kernels' machine code, where they can be compiled."""

import json

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))


def test_decode_is_predicted_where_kernels_can_be_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    """By the schedule for few queries, above the bound of its bytes; keys of 128 leave few ways to split them."""
    asked = ("model", "qwen-2.5-7b", "--tp", "4", "--batch", "2", "--seqlen", "128", "--json")
    assert main([*asked]) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    (layers,) = device["layers"]
    assert not device["decode_is_bound"]
    assert layers["decode"]["best"]["schedule"] == "flash_decode"
    assert layers["decode"]["best"]["time_s"] > layers["decode"]["time_at_least_s"] > 0
    assert device["decode_s"] == pytest.approx(28 * layers["decode"]["best"]["time_s"])
