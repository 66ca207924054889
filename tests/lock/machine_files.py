"""Facts documents of machines, for commands that read them."""

from __future__ import annotations


def facts(gpu: str, capability: str, driver: str, *, python: str = "3.12") -> dict[str, object]:
    """A Linux machine with one GPU and an interpreter."""
    return {
        "schema_version": 1,
        "kind": "facts",
        "machine": {
            "host": {"platform": "linux-x86_64", "glibc": "2.35"},
            "driver": {"version": driver},
            "gpus": [{"index": 0, "name": gpu, "capability": capability}],
        },
        "environment": {"interpreter": {"version": f"{python}.4"}},
    }
