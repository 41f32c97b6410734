"""`multinomial` of one sample, or of several without replacement: quotients with exponential numbers, the largest.

Source: `multinomial` in ATen/native/Distributions.cpp, torch 2.11: probabilities are checked on the device first.
"""

from dataclasses import replace

from ...gpu import Gpu, scratch
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import drawn, iterate
from ..ordering import topk
from ..reductions import LARGEST, MEAN, PLACED, SUM, reduced


def multinomial(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Checks of the probabilities, a number for each, their quotients, and the places of the largest."""
    weights, output = operation.inputs[0], operation.outputs[0]
    rows = weights.shape[0] if len(weights.shape) > 1 else 1
    value, truth = scratch(weights, 0, shape=(1,)), scratch(weights, 1, shape=(1,), dtype="bool")
    sums, zeros = scratch(weights, 2, shape=(rows,)), scratch(weights, 3, shape=(rows,), dtype="bool")
    numbers, last = scratch(weights, 4), (len(weights.shape) - 1,)
    checked: list[PricedKernel] = []
    for _ in ("least", "largest"):
        checked += [*reduced(weights, (value,), (), gpu, LARGEST), iterate("ge", (value,), truth, gpu)]
    kernels = [
        *checked,
        iterate("bitwise_and", (truth, truth), truth, gpu),
        gpu.kernel("assert_async", (truth,), (), chain=gpu.cost("search.assert_loads")),
        *reduced(weights, (sums,), last, gpu, SUM),
        iterate("eq", (sums,), zeros, gpu),
        *reduced(zeros, (truth,), (), gpu, MEAN),
        iterate("bitwise_not", (truth,), truth, gpu),
        gpu.kernel("assert_async", (truth,), (), chain=gpu.cost("search.assert_loads")),
        drawn("exponential", (), (numbers,), gpu),
        iterate("div", (weights, numbers), numbers, gpu),
    ]
    if output.shape[-1] == 1:
        return [*kernels, *reduced(numbers, (output,), last, gpu, PLACED)]
    values = scratch(weights, 5, shape=output.shape)
    return [*kernels, *topk(replace(operation, name="topk", inputs=(numbers,), outputs=(values, output)), gpu)]


def other_draws(operation: Operation) -> str:
    """Which draws have no price, in words; empty: they have one."""
    several = operation.outputs[0].shape[-1] > 1
    return "of several samples with replacement" if several and operation.arguments.get("replacement") else ""
