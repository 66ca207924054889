"""The checks on a real NVIDIA machine where CUDA starts: none of them may cry wolf."""

from __future__ import annotations

import shutil

import pytest

from envguard.checks import run_checks
from envguard.checks.context import CheckOptions
from envguard.facts.facts import Facts
from envguard.matrix.complete import complete_facts
from envguard.probe import ProbeOptions, probe_machine
from tests.checks.sample import environment, tables, torch_build

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def facts() -> Facts:
    if shutil.which("nvidia-smi") is None:
        pytest.skip("needs an NVIDIA GPU: no nvidia-smi on PATH")
    machine, gaps = probe_machine(ProbeOptions(all_sources=True, cuda_init=True))
    if not any(r.value == "CUDA_SUCCESS (0)" for r in machine.readings):
        pytest.skip("CUDA does not start on this machine")
    return Facts(machine, environment(torch_build("2.9.1+cu126")), gaps)


def test_a_machine_where_cuda_starts_has_no_failure(facts: Facts) -> None:
    findings = run_checks(complete_facts(facts, tables()), tables(), CheckOptions())
    failing = [(f.code, f.title, f.detail) for f in findings if f.status.value == "fail"]
    assert failing == []


def test_its_sources_agree(facts: Facts) -> None:
    findings = run_checks(complete_facts(facts, tables()), tables(), CheckOptions())
    odd = {"NVM001", "NVM002", "NVM003", "NVM004", "NVM005", "CTR001", "CTR003", "DRV009", "DRV010"}
    assert [(f.code, f.title) for f in findings if f.code in odd] == []
