"""How the compiled loops are compiled: kept on disk, with C's division, and without reference counts.

The loops allocate nothing and keep nothing, so counting references of the arrays that pass through them is pure cost
(it made the engine five times slower); `_nrt=False` is numba's switch for code that does not need its runtime.

numba takes a cached function for good while the file that defines it is unchanged,
although functions and constants of other files are compiled into it.
So the stamp of every cached function here is a digest of all files of this folder and below, and of `limits`.
They lie in a folder of that name beside kept answers, not in the package: all installs of one source share them, and
an uninstall leaves nothing that Python would take for the package.

A function that compiled functions call is a *part* of each of them. numba would optimize it, make machine code of it
and keep it first, at every level of calls anew, though none of it is run: two thirds of the time.
Here a part goes into its callers as it is, and LLVM sees it once, in the function that Python calls.
"""

import gc
import logging
import multiprocessing
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numba
from numba import njit, types
from numba.core import compiler, config, event
from numba.core.caching import Cache, CompileResultCacheImpl, IndexDataCacheFile, _CacheLocator
from numba.core.codegen import JITCodeLibrary

from ..cache_folder import cache_folder
from ..jobs.working_clock import COMPILING

OLDEST_NUMBA, NEWEST_NUMBA = (0, 61), (0, 68)
"""The cache below is built from inner functions of numba, known to be as they should from the one to the other."""
if not OLDEST_NUMBA <= numba.version_info[:2] <= NEWEST_NUMBA:
    raise ImportError(
        f"numba {numba.__version__} is installed: must be 0.61 to 0.68 (pip install 'numba>=0.61,<0.69')",
        name="numba",
    )
_SOURCES = [*sorted(Path(__file__).parent.rglob("*.py")), Path(__file__).parents[1] / "limits.py"]
_DIGEST = sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()
_ENGINES = Path(getattr(config, "CACHE_DIR", "") or cache_folder() / "engine")
_KEPT_ENGINES = 4
"""Folders of compiled code that are left, of the sources that were compiled last: some 2 MB each."""
_LOG = logging.getLogger(__name__)
WARNED: list[str] = []
"""Why what is compiled cannot be kept on disk, once that has been said."""


class _CompilingListener(event.Listener):
    """Tells the clock of work that numba compiles, and holds back Python's garbage collector: a quarter of the time."""

    def __init__(self) -> None:
        self.collects: list[bool] = []

    def on_start(self, event: event.Event) -> None:
        COMPILING.begin()
        self.collects.append(gc.isenabled())
        gc.disable()

    def on_end(self, event: event.Event) -> None:
        COMPILING.end()
        if self.collects.pop():
            gc.enable()


event.register("numba:compile", _CompilingListener())


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function into its callers: a call that passes a dozen arrays costs more than most work here."""
    return compiled(function, forceinline=True)


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function at its first call, or take it from the disk if no file of this folder has changed."""
    make: Any = njit  # whose types know but a few options
    options = {"error_model": "numpy", "nogil": True, "_nrt": False} | options
    dispatcher = make(**options)(function)
    try:
        dispatcher._cache = _KeptCode(function)
    except RuntimeError:  # there is no folder to keep it in
        _cannot_keep(f"{_ENGINES} cannot be written")

    @cache
    def part() -> Any:
        alone = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # no way in from Python
        return make(pipeline_class=_PartCompiler, **alone, **options)(function)

    def template(arguments: tuple[types.Type, ...], named: dict[str, types.Type]) -> Any:
        """One part for all numbers, where numba would make one for each constant that is passed."""
        return part().get_call_template(tuple(map(types.unliteral, arguments)), named)

    dispatcher.get_call_template = template
    dispatcher.get_overload = lambda signature: part().get_overload(signature)
    return dispatcher


class _PartLibrary(JITCodeLibrary):
    """Code of a part: linked to what it calls, neither optimized nor made machine code."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Nothing for Python to call, which has the function itself (`compiled`). Args: name: in LLVM."""
        return 0

    @property
    def codegen(self) -> "_PartLibrary":
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Parts have no objects of Python to look up. Args: name: in LLVM; environment: of the function."""


class _PartCompiler(compiler.CompilerBase):
    """Compiles parts: as numba does, into such a library."""

    def define_pipelines(self) -> list[Any]:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return [compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)]


def is_kept(dispatcher: Any) -> bool:
    """Whether a compiled function is on the disk, or compiled in this process already."""
    folder = dispatcher._cache.cache_path
    name = f"{dispatcher.py_func.__module__.rpartition('.')[2]}.{dispatcher.py_func.__qualname__}-*.nbi"
    return bool(dispatcher.signatures) or (folder is not None and any(Path(folder).glob(name)))


def can_keep() -> bool:
    """Whether all that was compiled so far is on the disk, or will be."""
    return not WARNED


class _Locator(_CacheLocator):
    """Where a function's code lies: in a folder of this source and this numba, whatever the install."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._line, self._py_file = function.__code__.co_firstlineno, file

    def get_cache_path(self) -> str:
        """Of the function's package, as modules of two may have one name."""
        return str(_ENGINES / f"{_DIGEST[:16]}-numba-{numba.__version__}" / Path(self._py_file).parent.name)

    def get_source_stamp(self) -> str:
        """Of all that may be compiled into the function."""
        return _DIGEST

    def get_disambiguator(self) -> str:
        """The line, as in numba's own names."""
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Self | None:
        """The place of a function; None where it cannot be written."""
        locator = cls(py_func, py_file)
        try:
            if not Path(locator.get_cache_path()).parent.exists():
                _leave_newest(_ENGINES, _KEPT_ENGINES - 1)
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator


def _leave_newest(folder: Path, count: int) -> None:
    """Remove all but the newest folders in a folder."""
    with suppress(OSError):  # another process removes them
        for old in sorted(folder.glob("*-numba-*"), key=lambda path: path.stat().st_mtime)[:-count]:
            shutil.rmtree(old, ignore_errors=True)


class _Reduced(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 - as numba has it


class _KeptCode(Cache):
    """One function's code, kept in files that several processes share."""

    _impl_class = _Reduced  # type: ignore[assignment]

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = SharedCacheFile(self.cache_path, self._impl.filename_base, _DIGEST)


class SharedCacheFile(IndexDataCacheFile):
    """One function's machine code on disk, for several processes at once; what cannot be kept only costs time.

    numba's own class numbers its data files by an index that it has read before. Two processes that compile a function
    for different types at the same time take the same number, and one later runs the code of the other.
    Here a data file is named after what it holds, and is there before the index tells of it.
    Where two write the index at once, the one that is last wins, and the other's code is compiled anew some day.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep code.

        Args:
            key: types, processor and source.
            data: as numba packs it.
        """
        base = self._index_name.removesuffix(".nbi")
        name = f"{base}.{sha256(repr((self._source_stamp, key)).encode()).hexdigest()[:16]}.nbc"
        try:
            self._save_data(name, data)
            kept = {**self._load_index(), key: name}
            self._save_index(kept)
            for old in Path(self._cache_path).glob(f"{base}.*.nbc"):
                if old.name not in kept.values():
                    old.unlink(missing_ok=True)
        except OSError as error:
            _cannot_keep(f"{self._cache_path} cannot be written ({error.strerror})")

    def load(self, key: Any) -> Any:
        """Code that was kept under a key; None where there is none that can be read."""
        try:
            return super().load(key)
        except Exception:  # whatever unpickling a damaged file may raise; it is compiled and kept anew
            return None

    def _load_index(self) -> dict[Any, str]:
        try:
            index: dict[Any, str] = super()._load_index()
        except Exception:  # as above
            return {}
        return index


def _cannot_keep(why: str) -> None:
    """Say once, and not in processes that help another one, that compiling will have to be done again."""
    if not WARNED and multiprocessing.parent_process() is None:
        _LOG.warning(
            "tilesight: the compiled engine cannot be kept, so every run compiles it (up to a minute): %s; "
            "set TILESIGHT_CACHE_DIR to a folder that can",
            why,
        )
    WARNED.append(why)
