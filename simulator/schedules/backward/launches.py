"""Tensors and launches that the schedules of the backward pass share."""

from dataclasses import replace

from ...integers import cdiv
from ...launch.outline import outlined_launch
from ...launch.program import Launch, Tensor
from ...problems.attention_backward import AttentionBackwardProblem
from ..tiles import key_tensor, padded_head_dim, query_tensor, statistic_tensor

STRIP_ELEMENTS = 8192
"""Of O that a CTA of a row-wise kernel takes."""
ROW_WARPS = 4


def output_gradient(problem: AttentionBackwardProblem) -> Tensor:
    """The gradient dO of the output."""
    return query_tensor(problem, "dO")


def delta_tensor(problem: AttentionBackwardProblem) -> Tensor:
    """Row sums delta = rowsum(dO * O), in fp32."""
    return statistic_tensor(problem, "DELTA", "scratch")


def key_gradient(problem: AttentionBackwardProblem, name: str) -> Tensor:
    """A gradient of K's shape: dK or dV."""
    return replace(key_tensor(problem, name), role="output")


def delta_launch(name: str, problem: AttentionBackwardProblem, *others: Tensor, **arguments: int | float) -> Launch:
    """The launch of delta, by strips of rows. Args: others: tensors that it fills with zeros."""
    tensors = (query_tensor(problem, "O"), output_gradient(problem), delta_tensor(problem), *others)
    return row_launch(name, problem, tensors, **arguments)


def row_launch(
    name: str, problem: AttentionBackwardProblem, tensors: tuple[Tensor, ...], **arguments: int | float
) -> Launch:
    """A launch over strips of the rows of all heads. Args: arguments: beside the number of rows."""
    dim = padded_head_dim(problem)
    rows, strip = problem.batch * problem.heads * problem.seqlen_q, max(1, STRIP_ELEMENTS // dim)
    return outlined_launch(
        name,
        (cdiv(rows, strip), 1, 1),
        tensors,
        num_warps=ROW_WARPS,
        num_stages=1,
        dtype=problem.dtype,
        constants={"head_dim": problem.head_dim, "padded_dim": dim, "block_rows": strip, "whole": rows % strip == 0},
        arguments={"rows_total": rows, **arguments},
    )
