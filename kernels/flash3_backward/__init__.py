"""The gradients of attention on Hopper, in Gluon: a warp group that loads, two that multiply, dQ added by TMA."""

from .entry import flash3_backward

__all__ = ["flash3_backward"]
