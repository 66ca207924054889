# Runs inside the inspected interpreter, loaded by _child.py: standard library and torch only,
# Python 3.8 syntax, no envguard import.
"""What the stages share, and the first two: torch and the device."""

import os
from typing import Any, Callable, Dict, List, Optional


class SkipError(Exception):
    """The stage does not apply here; the message says why."""

    smoke_kind = "skip"


class UnavailableError(Exception):
    """The device asked for is not there."""

    smoke_kind = "device"


class Run:
    """What the stages share: torch, the device, and the small model.

    Args:
        asked: ``auto``, ``cpu`` or ``cuda:N``.
        scratch: A folder for files.
        import_module: ``importlib.import_module``.
        memory: Measures what an action costs in host memory.
    """

    def __init__(
        self, asked: str, scratch: str, import_module: Callable[[str], Any], memory: Any
    ) -> None:
        self.asked = asked
        self.scratch = scratch
        self.import_module = import_module
        self.memory = memory
        self.stage = ""
        self.limit_s = 0.0
        self.write: Callable[[Dict[str, Any]], None] = lambda record: None
        self.closers: List[Callable[[], None]] = []
        self.torch: Any = None
        self.device: Optional[str] = "cpu" if asked == "cpu" else None
        self.params: List[Any] = []
        self.loss: Any = None

    @property
    def on_cuda(self) -> bool:
        """Whether the stages run on a GPU."""
        return self.device is not None and self.device.startswith("cuda")

    def begin(self, stage: str, limit_s: float, write: Callable[[Dict[str, Any]], None]) -> None:
        """A stage begins; ``write`` notes its parts."""
        self.stage, self.limit_s, self.write = stage, limit_s, write

    def part(self, name: str) -> None:
        """Note which part of the stage begins: it is named when the process dies in it."""
        self.write({"event": "part", "stage": self.stage, "part": name})

    def close(self) -> None:
        """Give back what stages left open for later ones."""
        while self.closers:
            self.closers.pop()()

    def synchronize(self) -> None:
        """Wait for the GPU: its errors are asynchronous."""
        if self.on_cuda and self.torch.cuda.is_initialized():
            self.torch.cuda.synchronize(self.device)

    def tensor(self, values: Any, dtype: str = "float32", grad: bool = False) -> Any:
        """A tensor on the device under test."""
        kind = getattr(self.torch, dtype)
        return self.torch.tensor(values, dtype=kind, device=self.device, requires_grad=grad)


def stage_import(run: Run) -> Dict[str, Any]:
    """``import torch``, and what the build says about itself."""
    torch = run.torch = run.import_module("torch")
    return {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "xpu": getattr(torch.version, "xpu", None),
        "git_version": getattr(torch.version, "git_version", None),
        "path": os.path.dirname(torch.__file__ or ""),
    }


def stage_cuda_init(run: Run) -> Dict[str, Any]:
    """Start CUDA and find the device; with ``auto`` no GPU at all means the CPU."""
    torch = run.torch
    if run.asked == "cpu":
        raise SkipError("the CPU was asked for")
    if not torch.version.cuda:
        run.device = "cpu"
        if run.asked == "auto":
            raise SkipError("this build of torch has no CUDA")
        raise UnavailableError("torch %s is a build without CUDA" % torch.__version__)
    try:
        torch.cuda.init()
    except RuntimeError as err:
        if not is_no_gpu(str(err)):
            raise
        if run.asked != "auto":
            raise UnavailableError(str(err)) from err
        run.device = "cpu"
        raise SkipError(str(err).splitlines()[0]) from err
    return describe_gpu(run)


def is_no_gpu(message: str) -> bool:
    """Whether CUDA says that there is no GPU or no driver, and not that one is broken."""
    return "Found no NVIDIA driver" in message or "No CUDA GPUs are available" in message


def describe_gpu(run: Run) -> Dict[str, Any]:
    """Resolve the device and say what it is."""
    cuda = run.torch.cuda
    count = cuda.device_count()
    device = "cuda:0" if run.asked == "auto" else run.asked
    if int(device[len("cuda:") :]) >= count:
        raise UnavailableError("torch sees %d GPU(s), so there is no %s" % (count, device))
    run.device = device
    cuda.set_device(device)
    properties = cuda.get_device_properties(device)
    return {
        "gpu_count": count,
        "name": properties.name,
        "capability": "%d.%d" % (properties.major, properties.minor),
        "memory_bytes": properties.total_memory,
        "uuid": str(getattr(properties, "uuid", "")) or None,
        "targets": list(cuda.get_arch_list()),
    }
