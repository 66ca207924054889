"""The lock family: is this host one of the machines that envguard's own lock was made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, driver_evidence
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.lock_record import LockedMachine, LockRecord
    from envguard.facts.machine import Machine
    from envguard.matrix.loader import Matrix


def check_lock_record(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Platform and Python of the lock, then whether a machine like this one stands in it.

    Driver, code and glibc are judged by the other checks, on the build that the lock pins.
    """
    environment = facts.environment
    record = environment.lock if environment is not None else None
    if record is None:
        return
    yield from _wrong_platform(facts, record)
    yield from _wrong_python(facts, record)
    if record.machines and (facts.machine.gpus is not None or facts.machine.driver.version):
        yield _membership(facts, record)


def _wrong_platform(facts: Facts, record: LockRecord) -> Iterator[Finding]:
    here = facts.machine.host.platform
    if record.platform is None or here is None or here == record.platform:
        return
    yield Finding(
        code="LCK001",
        cause="lock-for-other-platform",
        status=Status.FAIL,
        title=say(
            "the lock is for {platform}, this is {here}", platform=record.platform, here=here
        ),
        detail="Its wheels are of that platform; an installer refuses them or takes others.",
        evidence=(Evidence("lock.platform", str(record.platform), "lockfile"),),
        remedy=Remedy(
            say("lock again for this platform: `envguard lock ... --platform {here}`", here=here)
        ),
    )


def _wrong_python(facts: Facts, record: LockRecord) -> Iterator[Finding]:
    interpreter = facts.environment.interpreter if facts.environment else None
    version = interpreter.version if interpreter is not None else None
    if record.python is None or version is None:
        return
    here, wanted = version.release[:2], record.python.release[:2]
    if here == wanted:
        return
    label = ".".join(map(str, wanted))
    yield Finding(
        code="LCK002",
        cause="lock-for-other-python",
        status=Status.FAIL,
        title=say(
            "the lock is for Python {python}, the interpreter is {version}",
            python=label,
            version=version,
        ),
        detail="Its wheels carry that Python's tag.",
        evidence=(Evidence("lock.python", label, "lockfile"),),
        remedy=Remedy(
            say(
                "install it with Python {python}, or lock again with --python-version", python=label
            )
        ),
    )


def _membership(facts: Facts, record: LockRecord) -> Finding:
    matching = [m for m in record.machines if _is_like(m, facts.machine)]
    evidence = (*driver_evidence(facts), Evidence("lock.machines", _words(record), "lockfile"))
    if matching:
        return Finding(
            code="LCK000",
            cause="host-in-lock",
            status=Status.OK,
            title="this host is one of the machines that the lock was made for",
            evidence=evidence,
        )
    return Finding(
        code="LCK003",
        cause="host-not-in-lock",
        status=Status.WARN,
        title="the lock was not made for a machine like this one",
        detail=say(
            "It was made for {machines}. Whether its torch build runs here all the same is "
            "what the other findings say.",
            machines=_words(record),
        ),
        evidence=evidence,
        remedy=Remedy("lock again with this machine added (--machine FILE, repeatable)"),
    )


def _is_like(locked: LockedMachine, here: Machine) -> bool:
    """Every GPU here has a capability that stands in the lock, and the driver is no older."""
    if locked.gpus is not None and here.gpus is not None:
        known = {gpu.compute_capability for gpu in locked.gpus}
        found = {gpu.capability for gpu in here.selected_gpus}
        if not found <= known or bool(known) != bool(found):
            return False
    older = (
        locked.driver is not None
        and here.driver.version is not None
        and here.driver.version < locked.driver
    )
    return not older


def _words(record: LockRecord) -> str:
    return "; ".join(_machine_words(machine) for machine in record.machines)


def _machine_words(machine: LockedMachine) -> str:
    names = [f"{g.name or 'GPU'} ({g.compute_capability or '?'})" for g in machine.gpus or ()]
    driver = f"driver {machine.driver}" if machine.driver else "driver not stated"
    gpus = ", ".join(dict.fromkeys(names)) or ("GPUs not stated" if machine.gpus is None else "CPU")
    return f"{gpus}, {driver}"
