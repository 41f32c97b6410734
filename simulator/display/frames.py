"""Tables of pandas, which is imported only where one is asked for."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(rows: Sequence[Mapping[str, Any]]) -> "DataFrame":
    """A data frame of rows with the same keys, which are its columns.

    Raises:
        ImportError: pandas is not installed; the text says how to.
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise ImportError("to_pandas needs pandas, which is not installed: pip install pandas") from None
    return DataFrame(list(rows))
