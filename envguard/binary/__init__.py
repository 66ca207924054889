"""Reads compiled files without running them: ELF, fatbins, the static link check."""
