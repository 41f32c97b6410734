"""Workers elsewhere: any `concurrent.futures.Executor` will do; this one is of a Dask cluster."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

WAIT_S = 10.0
"""What an address may take to answer [s]."""


class NoCluster(RuntimeError):
    """There is no such cluster; the text is one line."""


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The workers of a Dask cluster that runs.

    Args:
        address: of its scheduler, e.g. `tcp://10.0.0.7:8786`.

    Raises:
        NoCluster: nothing answers there, or Dask is not installed.
    """
    try:
        from distributed import Client
    except ImportError:
        raise NoCluster(f"{address!r}: Dask is not installed: pip install distributed") from None
    try:
        client = Client(address, timeout=WAIT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split())[:200]
        raise NoCluster(f"{address!r}: no scheduler answers within {WAIT_S:g} s ({why})") from None
    with client:
        yield client.get_executor(pure=False)
