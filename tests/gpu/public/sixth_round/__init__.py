"""Cases of a sixth round: kernels that none before launches, a good part of libraries that none before takes."""
