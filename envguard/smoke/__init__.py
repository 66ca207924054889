"""Runs a small training step in a child process, stage by stage; see design section 2."""
