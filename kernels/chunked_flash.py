"""Attention of a chunk of queries over a cache in Triton: the kernels of `flash_decode`, with several tiles of rows.

`chunked_flash` and `chunked_flash_cache` take what `flash_decode` and `flash_decode_cache` take, with more queries.
"""

from functools import partial

from .flash_decode import TWINS as TWINS
from .flash_decode import flash_decode, flash_decode_cache

chunked_flash = partial(flash_decode, schedule="chunked_flash")
chunked_flash_cache = partial(flash_decode_cache, schedule="chunked_flash")
