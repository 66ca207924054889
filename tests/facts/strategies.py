"""Random values of the vocabulary, for properties."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from packaging.version import Version

from envguard.facts.binary import BinaryFacts
from envguard.facts.environment import (
    Distribution,
    Environment,
    Interpreter,
    Manager,
    TorchBuild,
)
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap
from envguard.facts.lock_record import LockRecord
from envguard.facts.machine import Machine, OperatingSystem, Platform
from envguard.facts.versions import (
    Backend,
    CodeKind,
    CodeTarget,
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)

_part = st.integers(0, 999)
_labels = st.sampled_from(["", "+cu128", "+cpu", "a1", "rc2", ".post3", ".dev20260101+cu130"])

driver_versions = st.builds(
    lambda branch, rest: DriverVersion.parse(".".join([str(branch), *rest])),
    st.integers(10, 99999),
    st.lists(st.from_regex(r"[0-9]{1,6}", fullmatch=True), max_size=3),
)
cuda_versions = st.builds(CudaVersion, _part, _part)
capabilities = st.builds(ComputeCapability, st.integers(0, 99), st.integers(0, 9))
code_targets = st.builds(
    CodeTarget,
    st.sampled_from(CodeKind),
    st.builds(ComputeCapability, st.integers(1, 99), st.integers(0, 9)),
    st.sampled_from(["", "a", "f"]),
)
# A label has two digits for the major from 10 on, and one before it for CUDA 9.2 and older.
backends = st.one_of(
    st.just(Backend(None)),
    st.builds(lambda a, b: Backend(CudaVersion(a, b)), st.integers(10, 99), st.integers(0, 99)),
    st.builds(lambda a, b: Backend(CudaVersion(a, b)), st.integers(5, 9), st.integers(0, 9)),
)
platforms = st.builds(
    Platform, st.sampled_from(OperatingSystem), st.sampled_from(["x86_64", "aarch64"])
)
versions = st.builds(
    lambda a, b, c, label: Version(f"{a}.{b}.{c}{label}"), _part, _part, _part, _labels
)

for kind, strategy in (
    (Version, versions),
    (DriverVersion, driver_versions),
    (CudaVersion, cuda_versions),
    (ComputeCapability, capabilities),
    (CodeTarget, code_targets),
    (Backend, backends),
    (Platform, platforms),
):
    st.register_type_strategy(kind, strategy)


def _of(kind: Any) -> st.SearchStrategy[Any]:
    return st.from_type(kind)


# Field by field, because a type that is imported late cannot be looked up by its name.
environments = st.builds(
    Environment,
    interpreter=st.none() | _of(Interpreter),
    distributions=st.none() | st.lists(_of(Distribution), max_size=3).map(tuple),
    torch=st.none() | _of(TorchBuild),
    manager=st.none() | st.sampled_from(Manager),
    document=st.none() | st.text(max_size=8),
    lock=st.none() | _of(LockRecord),
)
facts = st.builds(
    Facts,
    machine=_of(Machine),
    environment=st.none() | environments,
    gaps=st.lists(_of(Gap), max_size=3).map(tuple),
    taken_at=st.text(max_size=8),
    compiled=st.none() | _of(BinaryFacts),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
