"""Help of a command under headings, by what its options are about: each is under the heading that its name has here."""

from typing import Any

from ...simulator.schedules.registry import DEFAULT_SCHEDULE, all_options, all_problems, find_schedule
from .files import WRITES
from .listing import write

PROBLEM, MORE_PROBLEM = "Problem", f"Problem, as other schedules than {DEFAULT_SCHEDULE} take it"
SCHEDULE, MORE_SCHEDULE = "Schedule's options", f"Options of other schedules than {DEFAULT_SCHEDULE}"
MODE, MODEL, TABLE = "How the step runs", "Of hf:config.json", "Public tables"
DEVICE, COST, OUTPUT, OTHERS = "Device", "Cost", "Output", "Options"
ORDER = ("Arguments", PROBLEM, MORE_PROBLEM, SCHEDULE, MORE_SCHEDULE, MODE, MODEL, TABLE, DEVICE, COST, OUTPUT, OTHERS)
NAMED = {
    **dict.fromkeys(
        ("--pass", "--problem", "--model", "--tp", "--layers", "--seqlen", "--seqlen-q", "--seqlen-k"), PROBLEM
    ),
    **dict.fromkeys(("--schedule", "--config"), SCHEDULE),
    **dict.fromkeys(("--mode", "--eager", "--compile", "--compare", "--train", "--graph"), MODE),
    **dict.fromkeys(("--device", "--set", "--old-set", "--new-set", "--l2", "--overhead", "--base", "--as"), DEVICE),
    **dict.fromkeys(("--registers", "--smem-bytes", "--compiled", "--cost"), COST),
    **dict.fromkeys(
        (*WRITES - {"--page"}, "--json", "--markdown", "--format", "--to", "--top", "--by", "--all"), OUTPUT
    ),
    **dict.fromkeys(("--triton-configs", "--trace-sms", "--sass"), OUTPUT),
}
"""Option -> its heading, in every command."""
NAMED_OF = {
    "profile": dict.fromkeys(("--tokens", "--decode", "--buckets", "--batch", "--layers"), MODEL),
    "validate": {"--page": OUTPUT, **dict.fromkeys(("--table", "--kind", "--sample", "--part"), TABLE)},
}
"""Command -> the same of its own options."""


def heading_of(command: str, option: str) -> str:
    """Where the help of a command has an option; one of problems or schedules by whether the usual one takes it."""
    name, usual = option.removeprefix("--").replace("-", "_"), find_schedule(DEFAULT_SCHEDULE)
    if said := NAMED_OF.get(command, {}).get(option) or NAMED.get(option):
        return said
    if name in all_options():
        return SCHEDULE if name in usual.options else MORE_SCHEDULE
    if any(name == item.name for kind in all_problems() for item in kind.FIELDS):
        asked = {item.name for item in usual.problem.FIELDS} - usual.problem.ASKS_NOTHING.keys() | set(usual.reads)
        return PROBLEM if name in asked else MORE_PROBLEM
    return OTHERS


def write_options(command: Any, context: Any, formatter: Any) -> None:
    """The options of a command, under headings. Args: formatter: of typer, which it is written to."""
    records: list[tuple[str, Any]] = []
    for param in command.get_params(context):
        argument = param.param_type_name == "argument"
        heading = "Arguments" if argument else heading_of(command.name, param.opts[0])
        records.append((heading, param.get_help_record(context)))
    write(formatter, records, ORDER)
