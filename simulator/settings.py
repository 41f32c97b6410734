"""How launches are simulated: the settings that `simulate` takes as words, and which words each takes."""

from .arguments import shown

COSTS = ("compiled", "tiles")
"""`compiled`: simulated from machine code; `tiles`: estimated from the tile program."""
SETTINGS = {
    "l2": ("cold", "warm", "dirty"),
    "resolution": ("chunk", "line"),
    "overhead": ("stream", "graph"),
    "cost": COSTS,
}


def check_settings(**settings: str) -> None:
    """Raises: ValueError: a setting has a value that is not allowed; one line."""
    for name, value in settings.items():
        if not isinstance(value, str) or value not in SETTINGS[name]:
            raise ValueError(f"{name} = {shown(value)}: must be one of {', '.join(SETTINGS[name])}")
