"""Programs from machine code: what every CTA of a launch loads, stores and computes, and in which order."""
