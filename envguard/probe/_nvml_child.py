# Runs in a child of envguard's own interpreter, isolated and without site; no envguard import.
"""Asks NVML about the driver and the GPUs: one Python dict per line, the driver's first.

A line per GPU, so that what was read survives a driver that hangs or crashes at the next GPU.
Literals instead of JSON: importing json and typing would double the start-up of this child.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

TYPE_CHECKING = False  # typing's own would import it
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Record = dict[str, Any]

_UNREADABLE = -1  # in place of an NVML code: the value could not be decoded
_FUNCTION_NOT_FOUND = 13
_VGPU = 2  # NVML_GPU_VIRTUALIZATION_MODE_VGPU
_MOST_GPUS = 1024  # a driver out of its mind must not keep us for hours
_EMPTY_SLOTS = (2, 3, 6)  # INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND: no MIG device there


def _say(kind: str, record: Mapping[str, Any]) -> None:
    sys.stdout.write(ascii({"kind": kind, **record}) + "\n")
    sys.stdout.flush()


def _load(folder: str) -> Any:
    """Import pynvml from its folder; ctypes.util, 10 ms that it never needs, stays out."""
    sys.path.append(folder)
    util = type(sys)("ctypes.util")
    util.find_library = _find_library  # type: ignore[attr-defined]  # a module made here
    sys.modules["ctypes.util"] = util
    import pynvml

    return pynvml


def _find_library(name: str) -> str | None:
    """The real function, imported if ever called."""
    del sys.modules["ctypes.util"]
    from ctypes.util import find_library

    return find_library(name)


def _ask(nvml: Any, record: Record, name: str, call: Callable[[], Any]) -> Any:
    """Store what a call returns, or the code that it fails with under ``errors``."""
    try:
        value = call()
    except nvml.NVMLError as err:
        record["errors"][name] = err.value
    except AttributeError:  # a module pynvml that is older than the call
        record["errors"][name] = _FUNCTION_NOT_FOUND
    except UnicodeDecodeError:
        record["errors"][name] = _UNREADABLE
    else:
        record[name] = value
        return value
    return None


def _library_path(word: str) -> str | None:
    """The file behind a loaded library, as the kernel maps it."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = [line.split(None, 5)[5].strip() for line in file if word in line]
    except (OSError, IndexError):
        return None
    return next((path for path in paths if word in path.rpartition("/")[2]), None)


def _report_gpu(nvml: Any, index: int) -> None:
    record: Record = {"index": index, "errors": {}}
    handle = _ask(nvml, record, "handle", lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    record.pop("handle", None)
    if handle is not None:
        _describe(nvml, record, handle)
    _say("gpu", record)


def _describe(nvml: Any, record: Record, handle: Any) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "name": lambda: nvml.nvmlDeviceGetName(handle),
        "uuid": lambda: nvml.nvmlDeviceGetUUID(handle),
        "capability": lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle),
        "memory_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
        "pci_bus_id": lambda: nvml.nvmlDeviceGetPciInfo(handle).busId,
        "virtualization": lambda: nvml.nvmlDeviceGetVirtualizationMode(handle),
        "mig_mode": lambda: nvml.nvmlDeviceGetMigMode(handle)[0],
        "fabric": lambda: _fabric(nvml, handle),
    }
    for name, call in calls.items():
        _ask(nvml, record, name, call)
    if isinstance(record.get("pci_bus_id"), bytes):
        record["pci_bus_id"] = record["pci_bus_id"].decode("ascii", "replace")
    if record.get("virtualization") == _VGPU:
        _ask(nvml, record, "is_licensed", lambda: _is_licensed(nvml, handle))
    if record.get("mig_mode") == 1:
        record["mig_devices"] = _describe_mig(nvml, record, handle)


def _fabric(nvml: Any, handle: Any) -> list[int]:
    """State of the GPU in its NVSwitch fabric, and the result of joining it."""
    info = nvml.c_nvmlGpuFabricInfo_t()
    nvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
    return [info.state, info.status]


def _is_licensed(nvml: Any, handle: Any) -> bool | None:
    """Whether some feature of a vGPU is licensed; None where it needs no licence."""
    found = nvml.nvmlDeviceGetGridLicensableFeatures_v4(handle)
    if not found.isGridLicenseSupported:
        return None
    features = found.gridLicensableFeatures[: found.licensableFeaturesCount]
    return any(feature.featureState != 0 for feature in features)


def _describe_mig(nvml: Any, record: Record, handle: Any) -> list[Record]:
    slots = _ask(nvml, record, "mig_count", lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    found = []
    for slot in range(slots or 0):
        device: Record = {"errors": {}}
        call = _mig_handle_call(nvml, handle, slot)
        mig = _ask(nvml, device, "handle", call)
        device.pop("handle", None)
        if mig is not None:
            _describe_instance(nvml, device, mig)
        if device["errors"].get("handle") not in _EMPTY_SLOTS:
            found.append(device)
    return found


def _mig_handle_call(nvml: Any, handle: Any, slot: int) -> Callable[[], Any]:
    return lambda: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)


def _describe_instance(nvml: Any, device: Record, mig: Any) -> None:
    _ask(nvml, device, "name", lambda: nvml.nvmlDeviceGetName(mig))
    _ask(nvml, device, "uuid", lambda: nvml.nvmlDeviceGetUUID(mig))
    _ask(nvml, device, "memory_bytes", lambda: nvml.nvmlDeviceGetMemoryInfo(mig).total)


def main(folder: str) -> None:
    """Report the driver, then each GPU.

    Args:
        folder: Where pynvml lies.
    """
    if sys.platform != "win32":
        try:
            ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as err:  # its text says more than NVML's LIBRARY_NOT_FOUND
            _say("driver", {"errors": {"library": 12}, "words": str(err)})
            return
    nvml = _load(folder)
    driver: Record = {"errors": {}, "library": _library_path("libnvidia-ml")}
    _ask(nvml, driver, "init", nvml.nvmlInit)
    if "init" not in driver["errors"]:
        _ask(nvml, driver, "version", nvml.nvmlSystemGetDriverVersion)
        _ask(nvml, driver, "nvml_version", nvml.nvmlSystemGetNVMLVersion)
        _ask(nvml, driver, "cuda", nvml.nvmlSystemGetCudaDriverVersion_v2)
        _ask(nvml, driver, "count", nvml.nvmlDeviceGetCount)
    _say("driver", driver)
    for index in range(min(driver.get("count") or 0, _MOST_GPUS)):
        _report_gpu(nvml, index)


if __name__ == "__main__":
    gc.disable()  # with the exit below 5 ms saved, and no driver gets a chance to hang at exit
    main(sys.argv[1])
    os._exit(0)
