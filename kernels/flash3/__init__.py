"""FlashAttention-3's ideas on Hopper, in Gluon: warp groups that load and multiply, products under the softmax."""

from .entry import flash3
from .options import Options

__all__ = ["Options", "flash3"]
