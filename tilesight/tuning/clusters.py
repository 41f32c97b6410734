"""Workers elsewhere: any `concurrent.futures.Executor` will do; these are of a Dask or a Ray cluster that runs."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager
from threading import Thread
from typing import Any, TypeVar

Answer = TypeVar("Answer")
WAIT_S = 10.0
"""What an address may take to answer [s]."""


class NoCluster(RuntimeError):
    """There is no such cluster; the text is one line."""


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The workers of a Dask cluster.

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
        _knock(address)
        client = _within_wait(lambda: Client(address, timeout=WAIT_S, set_as_default=False))
    except (OSError, ValueError, TimeoutError) as error:
        raise _silent(address, "scheduler", error) from None
    with client:
        yield client.get_executor(pure=False)


@contextmanager
def ray_executor(address: str) -> Iterator[Executor]:
    """The workers of a Ray cluster; each job takes one of its CPUs.

    Args:
        address: of its head: `10.0.0.7:6379` from a machine of the cluster, `ray://10.0.0.7:10001` from any other.

    Raises:
        NoCluster: nothing answers there, or Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise NoCluster(f"{address!r}: Ray is not installed: pip install 'ray[client]'") from None
    try:
        if address != "auto":
            _knock(address)
        _within_wait(lambda: ray.init(address, logging_level="ERROR", log_to_driver=False))
    except (OSError, ValueError, RuntimeError, TimeoutError) as error:
        raise _silent(address, "head", error) from None
    # What a lost worker had is done again by whoever asked.
    task = ray.remote(max_retries=0)(lambda function, *args, **kwargs: function(*args, **kwargs))

    class Tasks(Executor):
        """Ray's tasks."""

        def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            """As of an executor."""
            future: Future[Any] = task.remote(function, *args, **kwargs).future()
            return future

    try:
        yield Tasks()
    finally:
        ray.shutdown()


CLUSTERS: dict[str, Callable[[str], AbstractContextManager[Executor]]] = {
    "--dask": dask_executor,
    "--ray": ray_executor,
}
"""Option of the command line -> the workers at its address."""


def _silent(address: str, who: str, error: Exception) -> NoCluster:
    why = " ".join(str(error).split())[:200] or type(error).__name__
    return NoCluster(f"{address!r}: no {who} answers within {WAIT_S:g} s ({why})")


def _knock(address: str) -> None:
    """See that something listens, before a library tries for minutes. Raises: OSError, ValueError: nothing does."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError("must be HOST:PORT")
    socket.create_connection((host, int(port)), WAIT_S).close()


def _within_wait(connect: Callable[[], Answer]) -> Answer:
    """Connect, or leave it to a thread that nobody waits for. Raises: TimeoutError; whatever `connect` does."""
    outcome: Future[Answer] = Future()

    def run() -> None:
        try:
            outcome.set_result(connect())
        except Exception as error:
            outcome.set_exception(error)

    Thread(target=run, daemon=True).start()
    return outcome.result(timeout=WAIT_S)
