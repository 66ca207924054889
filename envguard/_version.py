"""Name and version of the distribution: here, and in pyproject.toml, which a test compares."""

# The command, the import and the module are `envguard`; on the package index that name belongs to
# another project, which installs an envguard/__init__.py and an envguard/cli.py of its own.
DISTRIBUTION = "envguard-gpu"
__version__ = "0.1.0"
