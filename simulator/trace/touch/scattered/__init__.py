"""Accesses that lie elsewhere in every CTA: the sectors that each touches, and lists of these."""
