"""What instructions compute from numbers: floats, and what lanes of a warp tell each other."""
