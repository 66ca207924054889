# Runs in a child of envguard's own interpreter, isolated and without site; no envguard import.
"""Loads the user-mode driver as torch would and asks for its CUDA version: a Python dict.

The last line counts. A literal instead of JSON: importing json and typing would double the
start-up of this child.
"""

from __future__ import annotations

import ctypes
import os
import sys

TYPE_CHECKING = False  # typing's own would import it
if TYPE_CHECKING:
    from typing import Any

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_INTEGRATED = 18  # CU_DEVICE_ATTRIBUTE_INTEGRATED
_MAJOR = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
_MINOR = 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
_MOST_DEVICES = 1024
_COMPAT = ("compat", "compat_orin", "cuda-compat")


def _library_path() -> str | None:
    """The file behind the loaded library, links resolved, as the kernel maps it."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = [line.split(None, 5)[5].strip() for line in file if "/libcuda.so" in line]
    except (OSError, IndexError):
        return None
    return paths[0] if paths else None


def _is_compat(path: str | None) -> bool:
    """Whether a library comes from a forward-compatibility package (cuda-compat)."""
    folders = (path or "").split("/")[:-1]
    return any(f in _COMPAT or f.startswith("cuda-compat-") for f in folders)


def _error_name(library: Any, code: int) -> str:
    name = ctypes.c_char_p()
    try:
        library.cuGetErrorName(code, ctypes.byref(name))
    except AttributeError:
        return f"CUDA_ERROR {code}"
    return name.value.decode("ascii", "replace") if name.value else f"CUDA_ERROR {code}"


def _version(library: Any, answer: dict[str, Any]) -> None:
    number = ctypes.c_int()
    try:
        code = library.cuDriverGetVersion(ctypes.byref(number))
    except AttributeError:
        answer["error"] = "it has no cuDriverGetVersion"
        return
    if code == 0:
        answer["cuda"] = number.value
    else:
        answer["error"] = f"cuDriverGetVersion: {_error_name(library, code)} ({code})"


def _devices(library: Any, answer: dict[str, Any]) -> None:
    code = library.cuInit(0)
    answer["init"] = code
    answer["init_name"] = "CUDA_SUCCESS" if code == 0 else _error_name(library, code)
    if code != 0:
        return
    count = ctypes.c_int()
    if library.cuDeviceGetCount(ctypes.byref(count)) == 0:
        numbers = range(min(count.value, _MOST_DEVICES))
        answer["devices"] = [_device(library, ordinal) for ordinal in numbers]


def _device(library: Any, ordinal: int) -> dict[str, Any]:
    device = ctypes.c_int()
    if library.cuDeviceGet(ctypes.byref(device), ordinal) != 0:
        return {}
    name = ctypes.create_string_buffer(256)
    memory = ctypes.c_size_t()
    uuid = (ctypes.c_ubyte * 16)()
    found: dict[str, Any] = {}
    if library.cuDeviceGetName(name, 256, device) == 0:
        found["name"] = name.value.decode("utf-8", "replace")
    if library.cuDeviceTotalMem_v2(ctypes.byref(memory), device) == 0:
        found["memory_bytes"] = memory.value
    if library.cuDeviceGetUuid(ctypes.byref(uuid), device) == 0:
        found["uuid"] = bytes(uuid).hex()
    for key, attribute in (("major", _MAJOR), ("minor", _MINOR), ("integrated", _INTEGRATED)):
        number = ctypes.c_int()
        if library.cuDeviceGetAttribute(ctypes.byref(number), attribute, device) == 0:
            found[key] = number.value
    return found


def main(wants_init: bool) -> None:
    """Print what the library says.

    Args:
        wants_init: Call ``cuInit`` and list the devices. It is called in any case for a
            forward-compatibility library: only it tells whether the GPUs accept one.
    """
    answer: dict[str, Any] = {}
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as err:
        answer["missing"] = str(err)
    else:
        answer["path"] = _library_path()
        answer["is_compat"] = _is_compat(answer["path"])
        _version(library, answer)
        if wants_init or answer["is_compat"]:
            sys.stdout.write(ascii(answer) + "\n")
            sys.stdout.flush()  # the version survives a cuInit that hangs or crashes
            try:
                _devices(library, answer)
            except AttributeError as err:
                answer["error"] = str(err)
    sys.stdout.write(ascii(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main("--init" in sys.argv)
    os._exit(0)  # no driver gets a chance to hang at exit
