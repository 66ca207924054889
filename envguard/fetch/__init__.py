"""Reads package registries through their own clients, pip and uv, as they are configured."""
