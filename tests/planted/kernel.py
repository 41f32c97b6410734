"""Streamed attention in Triton: the twin of the planted schedule."""

from types import MappingProxyType

from ..simulator.launch.program import Launch
from ..simulator.problems.problem import Problem
from .flash2 import flash2_kernel
from .launch.launch import TritonKernel


def twin(launch: Launch, problem: Problem) -> TritonKernel:
    """The kernel of a launch and its arguments."""
    return TritonKernel(flash2_kernel, launch.kernel_arguments)


TWINS = MappingProxyType({"streamed": twin})
