"""Help under headings: options of a command by what they are about, commands by whom they are for.

An option is under the heading that it names (`rich_help_panel` of typer), else under the one that its name has here.
"""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperGroup

from ...simulator.schedules.registry import DEFAULT_SCHEDULE
from .files import WRITES

PROBLEM, MORE_PROBLEM = "Problem", f"Problem, as other schedules than {DEFAULT_SCHEDULE} take it"
SCHEDULE, MORE_SCHEDULE = "Schedule's options", f"Options of other schedules than {DEFAULT_SCHEDULE}"
MODE, MODEL = "How the step runs", "Of hf:config.json"
DEVICE, COST, OUTPUT, OTHERS = "Device", "Cost", "Output", "Options"
ORDER = ("Arguments", PROBLEM, MORE_PROBLEM, SCHEDULE, MORE_SCHEDULE, MODE, MODEL, DEVICE, COST, OUTPUT, OTHERS)
NAMED = {
    **dict.fromkeys(("--pass", "--problem", "--model"), PROBLEM),
    **dict.fromkeys(("--schedule", "--config"), SCHEDULE),
    **dict.fromkeys(("--device", "--set", "--old-set", "--new-set", "--l2", "--overhead", "--base", "--as"), DEVICE),
    **dict.fromkeys(("--registers", "--smem-bytes", "--compiled", "--cost"), COST),
    **dict.fromkeys((*WRITES, "--json", "--markdown", "--format", "--to", "--top", "--by"), OUTPUT),
    **dict.fromkeys(("--triton-configs", "--trace-sms", "--sass"), OUTPUT),
}


def write_options(command: Any, context: Any, formatter: Any) -> None:
    """The options of a command, under headings. Args: formatter: of typer, which it is written to."""
    records: list[tuple[str, Any]] = []
    for param in command.get_params(context):
        argument = param.param_type_name == "argument"
        heading = "Arguments" if argument else param.rich_help_panel or NAMED.get(param.opts[0], OTHERS)
        records.append((heading, param.get_help_record(context)))
    _write(formatter, records, ORDER)


def _write(formatter: Any, records: Iterable[tuple[str, Any]], order: Iterable[str]) -> None:
    records = [(heading, record) for heading, record in records if record is not None]
    for heading in order:
        if rows := [record for of, record in records if of == heading]:
            with formatter.section(heading):
                formatter.write_dl(rows)


class Commands(TyperGroup):
    """The commands, in as many lists as there are reasons to ask."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """In the order in which they were added."""
        records = [
            (command.rich_help_panel, (name, command.get_short_help_str(formatter.width)))
            for name, command in self.commands.items()
        ]
        _write(formatter, records, dict.fromkeys(heading for heading, _ in records))
