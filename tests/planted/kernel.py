"""Streamed attention in Triton: the twin of the planted schedule."""

from types import MappingProxyType

from .flash2 import flash2_kernel
from .launch.launch import twin_of

TWINS = MappingProxyType({"streamed": twin_of(flash2_kernel)})
