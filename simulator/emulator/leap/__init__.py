"""Many iterations of a loop at a time, as if each had threads of its own: guessed, run side by side, and compared.

What threads hold is guessed: registers go on by the differences of the last iterations, or round and round as stages of
a ring do. All the iterations are run at once and compared: as far as each ends with what was guessed for the begin of
the next, and all branch alike, the guess was right, by induction. So nothing is approximated. A loop over K of a matrix
product goes to its end in a few leaps; one that goes on to the next tile by itself leaps from tile to tile.
"""
