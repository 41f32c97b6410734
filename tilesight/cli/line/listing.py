"""The list of commands, none of which is loaded before it is asked for: `--help` needs their names alone."""

from collections.abc import Callable, Iterable, Mapping
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
        names: Any = self.commands
        names.update(dict.fromkeys(self.listed))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, loaded now; None of a name that nothing has. Args: ctx: of typer; cmd_name: which."""
        return self.load(cmd_name) if cmd_name in self.listed else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """In the order in which they are listed."""
        records = [(heading, (name, summary)) for name, (heading, summary) in self.listed.items()]
        write(formatter, records, dict.fromkeys(heading for heading, _ in records))
