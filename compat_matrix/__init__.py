"""The compatibility matrix: TOML tables, read through importlib.resources."""
