"""The list of commands, none of which is loaded before it is asked for: `--help` needs their names alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from typer.core import TyperGroup


def write(formatter: Any, records: Iterable[tuple[str, Any]], order: Iterable[str]) -> None:
    """Write rows of help under headings. Args: formatter: of typer; records: heading and row; order: of headings."""
    records = [(heading, record) for heading, record in records if record is not None]
    for heading in order:
        if rows := [record for of, record in records if of == heading]:
            with formatter.section(heading):
                formatter.write_dl(rows)


class Commands(TyperGroup):
    """The commands, in as many lists as there are reasons to ask; each is loaded when it is asked for."""

    listed: Mapping[str, tuple[str, str]]
    load: Callable[[str], Any]

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        vars(self)["commands"] = _OnDemand(self.listed, self.load)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """In the order in which they are listed."""
        records = [(heading, (name, summary)) for name, (heading, summary) in self.listed.items()]
        write(formatter, records, dict.fromkeys(heading for heading, _ in records))


class _OnDemand(Mapping[str, Any]):
    """Values by name, made when they are first asked for."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Any]) -> None:
        self.made: dict[str, Any] = dict.fromkeys(names)
        self.make = make

    def __getitem__(self, name: str) -> Any:
        self.made[name] = self.made[name] or self.make(name)
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.made)

    def __len__(self) -> int:
        return len(self.made)
