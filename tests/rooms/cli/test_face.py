"""What `import tilesight` gives: the public names, on first use."""

from importlib.resources import files

import tilesight


def test_a_star_import_gives_the_public_names() -> None:
    """Names that load on first use are there as well."""
    names: dict[str, object] = {}
    exec("from tilesight import *", names)
    assert {"AttentionProblem", "Config", "explore", "simulate", "load_device"} <= set(names)
    assert set(tilesight.__all__) <= set(names)
    assert names["simulate"] is tilesight.simulate


def test_every_public_name_is_listed_once() -> None:
    """`__all__` and what is looked up on first use are the same names."""
    assert sorted(tilesight.__all__) == list(tilesight.__all__)
    assert set(tilesight.__all__) <= set(dir(tilesight))


def test_the_types_are_for_others_as_well() -> None:
    """PEP 561: a checker reads the annotations of a package that says so."""
    assert files("tilesight").joinpath("py.typed").is_file()
