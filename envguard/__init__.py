"""envguard tells whether a PyTorch / CUDA environment runs on an NVIDIA machine."""

from envguard._version import __version__

__all__ = ["__version__"]
