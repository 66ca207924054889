"""One HTTP client with one cache, and the registry that pip and uv are configured for."""
