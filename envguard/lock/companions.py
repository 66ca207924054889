"""What follows torch: which packages belong to it and which of their versions go with a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from envguard.errors import MatrixError
from envguard.facts.machine import OperatingSystem

if TYPE_CHECKING:
    from packaging.version import Version

    from envguard.lock.request import LockRequest
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchBuildRow, TorchRelease

_TRITON = canonicalize_name("triton")


def torch_family(matrix: Matrix) -> frozenset[NormalizedName]:
    """The packages whose builds differ by CUDA release: they come from the PyTorch index.

    Raises:
        MatrixError: The table does not list them.
    """
    names = matrix.document("uv.toml").data.get("routed_packages")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MatrixError("uv.toml: routed_packages: expected a list of names")
    return frozenset(canonicalize_name(name) for name in names)


def expected_companions(build: TorchBuildRow, matrix: Matrix) -> frozenset[NormalizedName]:
    """The members of the family that torch itself is going to bring along."""
    release = matrix.torch.release(build.version)
    is_cuda_linux = (
        build.backend.cuda is not None and build.platform.system is OperatingSystem.LINUX
    )
    return frozenset({_TRITON} if release and release.triton and is_cuda_linux else ())


def companion_constraints(
    build: TorchBuildRow, request: LockRequest, matrix: Matrix, *, with_label: bool
) -> tuple[Requirement, ...]:
    """Bounds on the packages that are released with torch.

    torchvision up to 0.29.0 pins torch itself; torchaudio from 2.11.0 does not, and would be
    taken in a version that was compiled against another torch.

    Args:
        build: The torch build.
        request: Bounds that it states win.
        matrix: The tables.
        with_label: Also pin the backend's label, where one index holds several backends.
    """
    release = matrix.torch.release(build.version)
    found = []
    for name, versions in released_with(release):
        if versions and not request.bounds_on(name):
            is_labelled = with_label and matrix.index.is_labelled(
                name, versions[-1], build.backend, build.platform
            )
            label = f"+{build.backend.label}" if is_labelled else ""
            found.append(Requirement(f"{name}{_bounds(versions, label)}"))
    return tuple(found)


def lacks_companion(build: TorchBuildRow, request: LockRequest, matrix: Matrix) -> str:
    """Why a build cannot go with what the request says about torchvision and torchaudio.

    Returns:
        The reason, or an empty string.
    """
    for name, versions in released_with(matrix.torch.release(build.version)):
        wanted = request.bounds_on(name)
        if versions and wanted and not any(wanted.contains(v) for v in versions):
            listed = ", ".join(map(str, versions))
            return f"{name} {listed} goes with it, the request says {name}{wanted}"
    return ""


def released_with(
    release: TorchRelease | None,
) -> tuple[tuple[NormalizedName, tuple[Version, ...]], ...]:
    """Torchvision and torchaudio with their versions for a release; empty when not recorded."""
    if release is None:
        return ()
    return (
        (canonicalize_name("torchvision"), release.torchvision),
        (canonicalize_name("torchaudio"), release.torchaudio),
    )


def _bounds(versions: tuple[Version, ...], label: str) -> str:
    if len(versions) == 1:
        return f"=={versions[0]}{label}"
    return f">={min(versions)},<={max(versions)}"
