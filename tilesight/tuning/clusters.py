"""Workers elsewhere: any `concurrent.futures.Executor` will do; these are of a Dask or a Ray cluster that runs."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from threading import Thread
from typing import Any

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
    library = _library(address, "Dask", "distributed", "distributed")
    client = _connected(address, lambda: library.Client(address, timeout=WAIT_S, set_as_default=False))
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
    ray = _library(address, "Ray", "ray", "'ray[client]'")
    _connected(address, lambda: ray.init(address, logging_level="ERROR", log_to_driver=False))
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


def _library(address: str, name: str, module: str, install: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise NoCluster(f"{address!r}: {name} is not installed: pip install {install}") from None


def _connected(address: str, connect: Callable[[], Any]) -> Any:
    """What `connect` gives; where it takes too long it is left to a thread that is not waited for.

    Raises:
        NoCluster: nothing listens, or what does is silent; Dask and Ray would try for minutes, and print.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(connect())
        except Exception as error:
            outcome.set_exception(error)

    try:
        _knock(address)
        Thread(target=run, daemon=True).start()
        return outcome.result(timeout=WAIT_S)
    except (OSError, ValueError, RuntimeError, TimeoutError) as error:
        why = " ".join(str(error).split())[:200] or "silence"
        raise NoCluster(f"{address!r}: no cluster answers within {WAIT_S:g} s ({why})") from None


def _knock(address: str) -> None:
    """See that something listens. Raises: OSError: nothing does; ValueError: the address is none."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if address == "auto":  # Ray's for the cluster that this machine is of
        return
    if not host or not port.isdecimal():
        raise ValueError("must be HOST:PORT")
    socket.create_connection((host, int(port)), WAIT_S).close()
