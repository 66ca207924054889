# Runs as a child of `envguard run` until its standard input closes: standard library and pynvml
# only, Python 3.8 syntax, no envguard; one JSON document on a line of stdout for every reading.
"""GPU memory of every process, read through NVML at an interval."""

import json
import select
import sys


def main() -> int:
    """Print readings until standard input ends; 1 when there is no NVML to ask."""
    interval = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    try:
        import pynvml
    except ImportError:
        return 1
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 1
    while True:
        print(json.dumps(read_gpus(pynvml)), flush=True)  # type: ignore[no-untyped-call] # see there
        ready, _, _ = select.select([sys.stdin], [], [], interval)
        if ready and not sys.stdin.readline():
            return 0


def read_gpus(nvml):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - 3.8, untyped module
    """One list entry for each GPU: what it has, what is used, and by which process."""
    gpus = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except nvml.NVMLError:
            continue
        held = {str(p.pid): p.usedGpuMemory for p in running if p.usedGpuMemory is not None}
        gpus.append({"gpu": index, "total": memory.total, "used": memory.used, "held": held})
    return gpus


if __name__ == "__main__":
    sys.exit(main())
