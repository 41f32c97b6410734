"""A Hugging Face config as a step of its model, without weights: the class, what it is called with, and its loss."""
