from __future__ import annotations

import pytest

from envguard.errors import InputError
from envguard.facts.gaps import GapReason
from envguard.facts.versions import CudaVersion
from envguard.ingest.detect import load_text
from envguard.ingest.nvidia_smi_query import parse_smi_xml
from tests.ingest.samples import load, report

MIB = 1024 * 1024


def test_text_of_driver_450() -> None:
    machine = load("smi_query_450.txt").machine
    assert str(machine.driver.version) == "450.66"
    assert machine.driver.cuda == CudaVersion(11, 0)
    first, second = machine.gpus or ()
    assert first.name == "GeForce GTX 780"
    assert first.uuid == "GPU-a230e637-c9e1-1b61-3830-a437b874d88d"
    assert first.memory_bytes == 3020 * MIB
    assert first.mig_enabled is False
    assert first.is_virtual is False
    assert second.pci_bus_id == "00000000:02:00.0"
    assert second.memory_bytes == 3022 * MIB


def test_text_of_driver_610_deprecates_the_old_names() -> None:
    machine = load("smi_query_610.txt").machine
    assert str(machine.driver.version) == "610.43.03"
    assert machine.driver.cuda == CudaVersion(13, 3)
    (gpu,) = machine.gpus or ()
    assert gpu.memory_bytes == 81559 * MIB
    assert [d.memory_bytes for d in gpu.mig_devices] == [40448 * MIB, 40320 * MIB]


def test_states_without_a_field_are_readings() -> None:
    vgpu = load("smi_query_vgpu.txt").machine
    said = {r.fact: r.value for r in vgpu.readings}
    assert said["gpu[0].licence"] == "Unlicensed (Restricted)"
    assert said["gpu[0].architecture"] == "Ampere"
    (gpu,) = vgpu.gpus or ()
    assert gpu.is_virtual is True
    fabric = {r.fact: r.value for r in load("smi_query_610.txt").machine.readings}
    assert fabric["gpu[0].fabric"] == "In Progress"


def test_xml_with_its_doctype() -> None:
    machine = load("smi_xml_mig.xml").machine
    assert str(machine.driver.version) == "575.51.02"
    assert machine.driver.cuda == CudaVersion(12, 9)
    first, second = machine.gpus or ()
    assert first.uuid == "GPU-529b3263-c96d-b557-bc75-697f04917eda"
    assert first.mig_enabled is True
    assert [d.memory_bytes for d in first.mig_devices] == [40192 * MIB]
    assert second.memory_bytes == 81920 * MIB
    assert second.mig_enabled is False


def test_cuda_version_not_found_is_a_gap() -> None:
    text = report("smi_xml_mig.xml").replace(">12.9<", ">Not Found<")
    facts = load_text(text, "x.xml")
    assert facts.machine.driver.cuda is None
    gap = facts.gap("machine.driver.cuda")
    assert gap is not None
    assert gap.reason is GapReason.ABSENT


def test_xml_in_the_middle_of_words_is_found() -> None:
    text = f"my GPUs\n\n{report('smi_xml_mig.xml')}\nthanks\n"
    assert len(load_text(text, "x").machine.gpus or ()) == 2


BOMB = """<!DOCTYPE nvidia_smi_log [
 <!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">
 <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
]>
<nvidia_smi_log><driver_version>&b;</driver_version></nvidia_smi_log>
"""


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        BOMB.replace("<!ENTITY b", "<!ENTITY % b"),
        "<!DOCTYPE nvidia_smi_log [<!ELEMENT a ANY>]>\n<nvidia_smi_log></nvidia_smi_log>",
        "<nvidia_smi_log>&undefined;</nvidia_smi_log>",
        "<nvidia_smi_log><gpu></nvidia_smi_log>",
        "<nvidia_smi_log>",
        "<nvidia_smi_log>" + "<a>" * 100 + "</a>" * 100 + "</nvidia_smi_log>",
    ],
)
def test_declarations_and_damage_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"bad\.xml"):
        load_text(text, "bad.xml")


def test_error_names_the_line_of_the_file() -> None:
    with pytest.raises(InputError, match=r"bad\.xml:12: not well-formed XML: mismatched tag"):
        parse_smi_xml("<nvidia_smi_log>\n<gpu>\n</nvidia_smi_log>", "bad.xml", 9)
