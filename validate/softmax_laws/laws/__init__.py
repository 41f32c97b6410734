"""The laws, and the truth with its bounds that they hold results against."""
