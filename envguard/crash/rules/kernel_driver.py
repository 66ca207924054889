"""Words of the driver's kernel module: which GPUs it takes, and which it could not start."""

from __future__ import annotations

# What the kernel says of a GPU that it leaves alone explains what programs say later.
REFUSED = (
    "kernel-legacy-driver",
    "kernel-open-module-needed",
    "kernel-closed-module-needed",
    "kernel-gpu-not-listed",
    "kernel-other-driver",
)
