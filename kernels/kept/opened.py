"""What a process reads: files that its code opens and modules that it loads, by Python's audit events.

Files that it has written itself, and caches of compilers, do not count. A step whose code starts processes or opens
sockets is not kept. Files that other languages open (weights mapped by a Rust library) are not heard.
"""

import importlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from glob import escape, glob
from importlib.machinery import FileFinder
from importlib.util import source_from_cache
from types import FrameType
from typing import Any

from ...simulator.cache_folder import cache_folder
from .witnesses import CACHE, FileFingerprint, Kind, state_of

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
WRITING = frozenset("wax+")
LISTS = frozenset({"os.listdir", "os.scandir"})
ASKS_OTHERS = frozenset({
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
    *("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"),
})  # fmt: skip
HEARD = LISTS | ASKS_OTHERS | {"open", "os.rename"}
IMPORTS = ("<frozen importlib", os.path.dirname(importlib.__file__))
PYTHON = os.path.dirname(os.__file__)
PACKAGES = ("site-packages", "dist-packages")
"""Folders of packages, which may lie below Python's own library."""
OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")
COMPILERS_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
"""Variables that name caches of compilers; torch sets its own where none is set."""


class FileAccessLog:
    """Listens from now on, until the process ends.

    Args:
        begin_ns: when the process was about to start, which has loaded modules since then [ns].
        aside: folders that do not count, beside compilers' caches.
    """

    def __init__(self, begin_ns: int, aside: Sequence[str]) -> None:
        self._begin_ns, self._aside = begin_ns, aside
        self._installed = tuple(os.path.join(folder, "") for folder in _installed())
        self._states: dict[str, str] = {}
        self._written: set[str] = set()
        self._listed: dict[str, None] = {}
        self._is_looking = self._asks_others = False
        sys.addaudithook(self._heard)

    def witnesses(self) -> list[FileFingerprint] | None:
        """What was read until now.

        Returns:
            Files and folders in their states; None: unknown: a file has changed meanwhile, its name is no text, or
            the code has asked other processes or hosts.
        """
        if self._asks_others:
            return None
        folders = (
            *self._aside,
            str(cache_folder()),
            *(os.environ[name] for name in COMPILERS_CACHES if os.environ.get(name)),
        )
        ignored = (*OF_THE_SYSTEM, *(os.path.join(os.path.abspath(folder), "") for folder in folders))
        self._is_looking = True
        made: list[FileFingerprint] = []
        for kind, path in self._paths():
            if os.path.join(path, "").startswith(ignored):
                continue
            state = state_of(kind, path)
            if not _is_text(path) or (kind in ("content", "stat") and not self._is_as_read(path, state)):
                return None
            made.append(FileFingerprint(kind=kind, path=path, state=state))
        return made

    def _paths(self) -> Iterator[tuple[Kind, str]]:
        files = dict.fromkeys(self._states)
        for module in tuple(sys.modules.values()):
            if isinstance(file := getattr(module, "__file__", None), str):
                files[os.path.abspath(_source(file))] = None
        for path in files:
            if not os.path.isdir(path):
                yield self._kind(path), path
        on_path = {os.path.abspath(folder) for folder in sys.path}
        for folder, finder in tuple(sys.path_importer_cache.items()):
            path = os.path.abspath(folder)
            if isinstance(finder, FileFinder) and (path in on_path or not path.startswith(self._installed)):
                yield "importable", path
        for path in self._listed:
            if not path.startswith(self._installed):
                yield "names", path

    def _kind(self, path: str) -> Kind:
        return "stat" if path.startswith(self._installed) else "content"

    def _is_as_read(self, path: str, state: str) -> bool:
        """Whether a file is as when it was opened, or, of a module that was loaded before, when the process began."""
        if path in self._states:
            return state == self._states[path]
        try:
            return os.stat(path).st_mtime_ns < self._begin_ns
        except OSError:
            return True  # some modules name a file that there never was

    def _heard(self, event: str, given: tuple[Any, ...]) -> None:
        if event not in HEARD or self._is_looking:
            return
        if event == "open":
            self._opened(*given[:3])
        elif event == "os.rename":
            self._opened(given[1], "w", 0)
        elif event in ASKS_OTHERS:
            self._asks_others |= self._is_of_user(sys._getframe(1))
        else:
            path = _path(given[0] if given[0] is not None else ".")
            if path and not sys._getframe(1).f_code.co_filename.startswith(IMPORTS):
                self._listed[path] = None

    def _is_of_user(self, frame: FrameType | None) -> bool:
        """Whether code that is not installed runs, or has called what does of Python's own library."""
        while frame is not None and _is_of_python(frame.f_code.co_filename):
            frame = frame.f_back
        return frame is not None and not frame.f_code.co_filename.startswith(self._installed)

    def _opened(self, path: Any, mode: str | None, flags: int | None) -> None:
        name = _source(_path(path))
        if not name or name in self._states or name in self._written or name.startswith(OF_THE_SYSTEM):
            return
        if WRITING & set(mode or "") or (flags or 0) & WRITES:
            self._written.add(name)
            return
        self._is_looking = True
        try:
            self._states[name] = state_of(self._kind(name), name)
        finally:
            self._is_looking = False


def _path(given: Any) -> str:
    """An absolute path; empty: none is given, but the number of a file that is open."""
    return os.path.abspath(os.fsdecode(given)) if isinstance(given, str | bytes | os.PathLike) else ""


def _is_of_python(file: str) -> bool:
    return file.startswith(("<", PYTHON)) and not any(folder in file for folder in PACKAGES)


def _is_text(path: str) -> bool:
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


def _source(path: str) -> str:
    """The file that a compiled module is of; any other file itself."""
    return source_from_cache(path) if f"{os.sep}{CACHE}{os.sep}" in path and path.endswith(".pyc") else path


def _installed() -> list[str]:
    """Folders of packages that are installed: Python's own, and those on its path that tell what they hold."""
    pythons = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    others = {os.path.abspath(folder) for folder in sys.path if folder and glob(f"{escape(folder)}/*.dist-info")}
    return sorted(pythons | others)
