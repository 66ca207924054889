"""Whose libcuda a container uses: the host's, or one that its image brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import is_in_container, readings_of, word_of

if TYPE_CHECKING:
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Reading


def image_libraries(facts: Facts) -> tuple[Reading, ...]:
    """The words that show a libcuda inside the image that is not the kernel module's.

    A runtime that passes GPUs mounts the host's libraries; a file on the root file system of a
    container is part of its image.

    Returns:
        Path, mount and version of that library; empty when there is none, or it matches.
    """
    driver = facts.machine.driver
    is_own = word_of(facts, "driver.libcuda_mount") == "/"
    if not (is_own and is_in_container(facts.machine.host)) or driver.compat_libcuda is not None:
        return ()
    versions = [r for r in readings_of(facts, "driver.user_mode_version") if r.probe == "libcuda"]
    if driver.version is None or not versions or versions[0].value == str(driver.version):
        return ()
    places = (*readings_of(facts, "driver.libcuda"), *readings_of(facts, "driver.libcuda_mount"))
    return (*places, *versions, *readings_of(facts, "driver.version"))
