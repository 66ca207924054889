"""Programs that refresh, derive and check the compatibility matrix."""
