"""envguard tells whether a PyTorch / CUDA environment runs on an NVIDIA machine."""

from envguard._version import __version__

# As typing.TYPE_CHECKING: importing typing takes longer than all of this, and fails where
# PYTHONPATH shadows it, before the program could say so.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from envguard.supervise.phase_mark import phase

__all__ = ["__version__", "phase"]


def __getattr__(name: str) -> object:
    """Load ``envguard.phase`` when a training script asks for it."""
    if name == "phase":
        from envguard.supervise.phase_mark import phase

        return phase
    raise AttributeError(f"module 'envguard' has no attribute {name!r}")
