"""``python -m envguard``."""

from envguard.cli.app import entry

if __name__ == "__main__":
    entry()
