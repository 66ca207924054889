"""The forms in which a lock is written, one file each."""
