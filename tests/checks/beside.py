"""Facts for tests of checks about packages: an H100 machine and the packages that a test names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.context import CheckOptions
from envguard.facts.environment import (
    Accelerator,
    BuildOrigin,
    Distribution,
    Environment,
    Interpreter,
    Manager,
    TorchBuild,
    label_of_version,
)
from envguard.facts.facts import Facts
from envguard.facts.machine import Driver, Gpu, Host, Machine, Platform, Toolkit
from envguard.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from envguard.matrix.complete import complete_facts
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.facts.findings import Finding
    from envguard.facts.gaps import Gap

    Check = Callable[[Facts, Matrix, CheckOptions], Iterator[Finding]]


@cache
def tables() -> Matrix:
    """The shipped matrix, loaded once."""
    return Matrix.load()


def distribution(word: str, **fields: object) -> Distribution:
    """``name==version``, installed by pip unless said otherwise."""
    name, _, version = word.partition("==")
    values = {"installer": "pip", **fields}
    return Distribution(name, Version(version), **values)  # type: ignore[arg-type]  # its fields


def facts_of(
    *words: str | Distribution,
    python: str = "3.12.3",
    gpus: tuple[str, ...] = ("9.0",),
    platform: str = "linux-x86_64",
    nvcc: str | None = None,
    gcc: str | None = None,
    variables: tuple[tuple[str, str], ...] = (),
    origin: BuildOrigin = BuildOrigin.VERSION_FILE,
    manager: Manager | None = Manager.PIP,
    executable: str | None = "/srv/env/bin/python",
    cuda: str | None = None,
    gaps: tuple[Gap, ...] = (),
) -> Facts:
    """Facts with these distributions; torch's CUDA comes from its label, or from ``cuda``."""
    found = [word if isinstance(word, Distribution) else distribution(word) for word in words]
    torch = next((d for d in found if d.name == "torch"), None)
    environment = Environment(
        interpreter=Interpreter(version=Version(python), executable=executable),
        distributions=tuple(sorted(found, key=lambda d: d.name)),
        torch=_build(torch, origin, cuda) if torch else None,
        manager=manager,
    )
    machine = Machine(
        host=Host(platform=Platform.parse(platform)),
        driver=Driver(DriverVersion.parse("590.44.01"), CudaVersion(13, 1), is_loaded=True),
        gpus=tuple(
            Gpu(index, f"GPU {text}", ComputeCapability.parse(text), is_visible=True)
            for index, text in enumerate(gpus)
        ),
        toolkit=Toolkit(
            nvcc=CudaVersion.parse(nvcc) if nvcc else None, gcc=Version(gcc) if gcc else None
        ),
        variables=variables,
    )
    return complete_facts(Facts(machine, environment, gaps), tables())


def _build(torch: Distribution, origin: BuildOrigin, cuda: str | None) -> TorchBuild:
    label = label_of_version(torch.version)
    if cuda is not None:
        return TorchBuild(torch.version, Accelerator.CUDA, CudaVersion.parse(cuda), origin)
    from_metadata = label.accelerator is None and origin is BuildOrigin.VERSION_FILE
    return TorchBuild(
        torch.version,
        label.accelerator,
        label.cuda,
        BuildOrigin.METADATA if from_metadata else origin,
    )


def findings(check: Check, facts: Facts) -> list[Finding]:
    """What one check finds."""
    return list(check(facts, tables(), CheckOptions(torch_index="https://index.example/{backend}")))


def said(check: Check, facts: Facts) -> list[tuple[str, str, str]]:
    """Code, cause and status of what one check finds."""
    return [(f.code, f.cause, f.status.value) for f in findings(check, facts)]
