"""All kernels of the zoo."""

from zoo import descriptors, indexed_rows, indexed_tiles, lengths, rowwise, scattered_rows, tiled

CASES = (
    rowwise.CASES
    | tiled.CASES
    | indexed_tiles.CASES
    | indexed_rows.CASES
    | scattered_rows.CASES
    | lengths.CASES
    | descriptors.CASES
)
