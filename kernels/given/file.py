"""A file of launches: TOML, a table `[[launch]]` for each, in the order in which they run."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from ...simulator.arguments import shown
from ...simulator.refusal import UserError
from .launch import Launch

SUFFIX = ".toml"
KEYS = tuple(field.name for field in fields(Launch) if field.name not in ("folder", "title"))


def is_launch_file(target: str) -> bool:
    """Whether a target is a file of launches."""
    return target.endswith(SUFFIX)


def read_launches(path: Path) -> tuple[Launch, ...]:
    """The launches of a file. Raises: UserError: it holds none; one line."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not TOML ({' '.join(str(error).split())})") from None
    tables = content.get("launch")
    if set(content) != {"launch"} or not isinstance(tables, list) or not tables:
        raise UserError(f"{path}: must hold tables [[launch]] alone, one for each launch")
    return tuple(_launch(path, number, table) for number, table in enumerate(tables, 1))


def _launch(path: Path, number: int, table: Any) -> Launch:
    begin = f"{path}: launch {number}: "
    if not isinstance(table, dict):
        raise UserError(f"{begin}must be a table")
    if unknown := [key for key in table if key not in KEYS]:
        raise UserError(f"{begin}{shown(unknown[0])}: must be one of {', '.join(KEYS)}")
    if not isinstance(table.get("cubin"), str) or not isinstance(table.get("kernel", ""), str):
        raise UserError(f"{begin}cubin: must be the path of a cubin, and kernel a name in it")
    if not isinstance(table.get("args", {}), dict):
        raise UserError(f"{begin}args: must be a table, name = argument in the order of the parameters")
    return Launch(**table, folder=path.parent)
