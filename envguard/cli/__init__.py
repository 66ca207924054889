"""The commands: parse, call, render, exit."""


def __getattr__(name: str) -> object:
    """Answer the console script of the other project that is named envguard.

    Its script, laid over ours, imports ``validate_env`` from ``envguard.cli``, which is this
    package as soon as both are installed.
    """
    if name == "validate_env":
        from envguard.__main__ import foreign_entry

        return foreign_entry
    raise AttributeError(f"module 'envguard.cli' has no attribute {name!r}")
