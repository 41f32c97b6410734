"""CTAs followed through code: how often they run what, where they stand, which addresses they touch."""
