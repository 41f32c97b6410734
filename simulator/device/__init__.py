"""One GPU as data: a frozen value, and the catalogue of devices as TOML files."""
