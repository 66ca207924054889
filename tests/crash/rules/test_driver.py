"""Logs about drivers, NVML, virtual GPUs, boards and WSL: variants of one kind get one answer."""

from __future__ import annotations

import pytest

from envguard.facts.facts import Facts
from envguard.facts.findings import Status
from envguard.ingest.stated import parse_stated, stated_facts
from envguard.ingest.stated_pins import add_pins
from tests.crash.logs import report_of

# Fewer steps do not show that a run went on: other ranks may not have noticed.
STEP = "{'loss': 0.43, 'grad_norm': 1.2, 'learning_rate': 1.9e-05, 'epoch': 0.12}\n" * 12


def stated(
    *gpus: str,
    pins: tuple[str, ...] = (),
    driver: str | None = None,
    nvcc: str | None = None,
    platform: str = "linux-x86_64",
) -> Facts:
    found, _ = stated_facts(
        parse_stated(gpu=list(gpus), driver=driver, nvcc=nvcc, platform=platform)
    )
    return Facts(found.machine, add_pins(None, pins) if pins else None, found.gaps)


def hypotheses(text: str, facts: Facts | None = None) -> list[str]:
    report = report_of(text, facts=facts)
    assert report.verdict is Status.UNKNOWN
    assert report.root_cause is None
    return [f.cause for f in report.findings if f.status is Status.UNKNOWN]


OPEN_IS_WRONG = """\
[   87.358035] NVRM: The NVIDIA GPU 0000:03:00.0 (PCI ID: 10de:1bb3)
               NVRM: installed in this system is not supported by open
               NVRM: nvidia.ko because it does not include the required GPU
               NVRM: System Processor (GSP).
"""
KERNEL_LOGS = {
    "open modules, wrapped": (OPEN_IS_WRONG, "kernel-module-flavour"),
    "open modules, journal": (
        "Nov 03 10:00:01 host kernel: NVRM: The NVIDIA GPU 0000:09:00.0 (PCI ID: 10de:1d01)\n"
        "             NVRM: installed in this system is not supported by open\n"
        "             NVRM: nvidia.ko because it does not include the required GPU\n"
        "Nov 03 10:00:01 host kernel: nvidia 0000:09:00.0: probe with driver nvidia failed with "
        "error -1\n"
        "Nov 03 10:00:01 host kernel: NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
        "Nov 03 10:00:01 host kernel: NVRM: None of the NVIDIA devices were initialized.\n",
        "kernel-module-flavour",
    ),
    "open modules, one line of the four": (
        "NVRM: nvidia.ko because it does not include the required GPU\n",
        "kernel-module-flavour",
    ),
    "open modules of 2022": (
        "[    5.1] NVRM: Open nvidia.ko is only ready for use on Data Center GPUs.\n",
        "kernel-module-flavour",
    ),
    "open modules, and a program": (
        f"{OPEN_IS_WRONG}RuntimeError: No CUDA GPUs are available\n",
        "kernel-module-flavour",
    ),
    "proprietary modules": (
        "$ nvidia-smi\nNo devices were found\n"
        "[    5.559842] NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2c58)\n"
        "               NVRM: installed in this system requires use of the NVIDIA open kernel "
        "modules.\n"
        "[    5.559858] NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x22:0x56:884)\n",
        "kernel-module-flavour",
    ),
    "legacy branch": (
        "NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is\n"
        "NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please\n"
        "NVRM:  information.  The 550.90.07 NVIDIA driver will ignore\n"
        "NVRM: No NVIDIA GPU found.\n",
        "driver-branch-dropped-gpu",
    ),
    "legacy branch with a point": (
        "NVRM:  supported through the NVIDIA 96.43.xx Legacy drivers. Please\n",
        "driver-branch-dropped-gpu",
    ),
    "driver before the GPU": (
        "[    4.2] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2684)\n"
        "          NVRM: installed in this system is not supported by the\n"
        "          NVRM: NVIDIA 470.63.01 driver release.\n"
        "          NVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'\n"
        "[    4.3] NVRM: The NVIDIA probe routine failed for 1 device(s).\n",
        "driver-too-old-for-gpu",
    ),
    "firmware": (
        "$ nvidia-smi\nNo devices were found\n"
        "[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM\n"
        "[  903.610907] NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)\n"
        "[  903.611884] NVRM: GPU 0000:98:00.0: rm_init_adapter failed, device minor number 0\n",
        "gpu-init-failed",
    ),
    "memory window": (
        "[   28.109029] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "               NVRM: BAR0 is 0M @ 0x0 (PCI:0000:06:00.0)\n"
        "[   28.109040] nvidia: probe of 0000:06:00.0 failed with error -1\n"
        "[   28.109102] NVRM: None of the NVIDIA devices were initialized.\n",
        "gpu-init-failed",
    ),
    "nouveau": (
        "NVRM: The NVIDIA probe routine was not called for 1 device(s).\n"
        "NVRM: This can occur when a driver such as:\n"
        "NVRM: nouveau, rivafb, nvidiafb or rivatv\n"
        "NVRM: was loaded and obtained ownership of the NVIDIA device(s).\n"
        "NVRM: No NVIDIA devices probed.\n",
        "no-gpu-visible",
    ),
    "nvidia-smi finds none": ("$ nvidia-smi\nNo devices were found\n", "no-gpu-visible"),
    "nvidia-smi finds none, older words": ("No devices found\n", "no-gpu-visible"),
    "module is not loaded": (
        "pynvml.NVMLError_DriverNotLoaded: Driver Not Loaded\n",
        "no-gpu-visible",
    ),
    "two versions, kernel log": (
        "[  312.6] NVRM: API mismatch: the client has the version 580.159.04, but\n"
        "          NVRM: this kernel module has the version 570.211.01.  Please\n",
        "nvml-kernel-userspace-mismatch",
    ),
    "two versions, pynvml": (
        "pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.\n",
        "nvml-kernel-userspace-mismatch",
    ),
    "lost GPU": (
        "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the "
        "system to recover this GPU\n",
        "gpu-hardware-fault",
    ),
}


@pytest.mark.parametrize(("text", "cause"), KERNEL_LOGS.values(), ids=KERNEL_LOGS)
def test_the_kernel_says_why_a_gpu_is_not_driven(text: str, cause: str) -> None:
    assert report_of(text).root_cause == cause


def test_the_flavour_that_is_needed_is_named() -> None:
    closed = report_of(KERNEL_LOGS["open modules, wrapped"][0]).findings[0]
    opened = report_of(KERNEL_LOGS["proprietary modules"][0]).findings[0]
    assert closed.remedy is not None
    assert opened.remedy is not None
    assert "proprietary" in closed.remedy.text
    assert "open flavour" in opened.remedy.text


HEALTHY_KERNEL = """\
[    5.499014] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build
[    5.55] nvidia-modeset: Loading NVIDIA UNIX Open Kernel Mode Setting Driver for x86_64
[    5.60] [drm] Initialized nvidia-drm 0.0.0 for 0000:01:00.0 on minor 1
[    6.10] nvidia 0000:01:00.0: vgaarb: VGA decodes changed: olddecodes=io+mem,decodes=none
NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.211.01  Tue Nov 25 16:36:36 UTC 2025
"""


def test_a_healthy_kernel_log_shows_nothing_wrong() -> None:
    assert report_of(HEALTHY_KERNEL, exit_code=0).verdict is Status.OK
    assert hypotheses(HEALTHY_KERNEL) == ["ending-not-told"]


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: something that nobody has seen before failed (0x51)\n",
        "error: something that nobody has seen before\n",
        "ERROR 01-30 13:26:29 [core.py:946] something that nobody has seen before\n",
        "RuntimeError in a helper thread\n",
        "CUDA driver error: something that nobody has seen before\n",
    ],
)
def test_an_error_that_no_rule_knows_is_not_called_well(text: str) -> None:
    assert "unknown-error" in hypotheses(f"start\n{text}")
    assert hypotheses(f"start\n{text}{STEP}") == ["ending-not-told"]
    assert report_of(f"start\n{text}", exit_code=0).verdict is Status.OK


@pytest.mark.parametrize(
    "text",
    [
        "ERROR: pip's dependency resolver does not currently take into account all the packages\n",
        "0 errors, 3 warnings\n",
        "WARNING: Error while fetching the chat template, using the default one\n",
        "Using Xavier initialization for the new layers\n",
    ],
)
def test_words_of_a_healthy_run_are_no_errors(text: str) -> None:
    assert report_of(text, exit_code=0).verdict is Status.OK


FRAME = "0x00007fffa16691bb in ?? () from /usr/lib/x86_64-linux-gnu/libcuda.so.1\n"
BACKTRACES = {
    "gdb": f"Program received signal SIGSEGV, Segmentation fault.\n{FRAME}(gdb) bt\n#0  {FRAME}",
    "gdb, a thread": f'Thread 16 "python" received signal SIGSEGV, Segmentation fault.\n{FRAME}',
    "gdb, all threads": (
        f'Thread 3 "cuda-EvtHandlr" received signal SIGSEGV, Segmentation fault.\n{FRAME}'
        "(gdb) thread apply all bt\n"
        "Thread 9 (Thread 0x7f41dc28d700 (LWP 1629)):\n"
        "#0  0x00007f427b42f48f in at::native::add () from /env/lib/libtorch_cuda.so\n"
    ),
    "gdb, a jump to nowhere": (
        f"Program received signal SIGSEGV, Segmentation fault.\n#0  0x0 in ?? ()\n#1  {FRAME}"
    ),
    "gdb, a copy in the C library": (
        "Program received signal SIGSEGV, Segmentation fault.\n"
        "#0  0x00007ffff6e4d34a in __memmove_avx_unaligned () from "
        "/lib/x86_64-linux-gnu/libc.so.6\n"
        f"#1  {FRAME}"
    ),
    "core file": f"Program terminated with signal SIGSEGV, Segmentation fault.\n#0  {FRAME}",
    "coredumpctl": (
        "        Signal: 11 (SEGV)\n"
        "                Stack trace of thread 4242:\n"
        "                #0  0x00007f25bd89e9fc n/a (libcuda.so.1 + 0x1a2b3c)\n"
        "                #1  0x00007f25bd89f000 n/a (libcudart.so.12 + 0x2b3c)\n"
    ),
    "apport": f"Signal: 11\nStacktrace:\n #0  {FRAME}",
    "catchsegv": (
        "*** Segmentation fault\nSegmentation fault (core dumped)\nBacktrace:\n"
        "/lib/x86_64-linux-gnu/libpthread.so.0(+0x12980)[0x7f5be4dcb980]\n"
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1(+0x1a2b3c)[0x7f5b54a2b3c0]\n"
        "/env/lib/python3.9/site-packages/torch/lib/libc10_cuda.so(+0x1a2b)[0x7f5b54a2b3c0]\n"
    ),
    "Open MPI": (
        "[node:12345] *** Process received signal ***\n"
        "[node:12345] Signal: Segmentation fault (11)\n"
        "[node:12345] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x42520)[0x7f6f0ac42520]\n"
        "[node:12345] [ 1] /lib/x86_64-linux-gnu/libcuda.so.1(cuInit+0x4d)[0x7f6ef4e2b3c0]\n"
    ),
    "UCX": (
        "[node0:3039 :0:3095] Caught signal 11 (Segmentation fault: address not mapped)\n"
        "==== backtrace (tid:   3095) ====\n"
        " 0 0x0000000000043090 ucs_handle_error()  /usr/lib/libucs.so.0:0\n"
        " 1 0x0000000000214090 cuInit()  /usr/lib/x86_64-linux-gnu/libcuda.so.1:0\n"
    ),
    "faulthandler of Python 3.14": (
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread's C stack trace (most recent call first):\n"
        '  Binary file "/usr/bin/python3", at _Py_DumpStack+0x31 [0x5c2b0e]\n'
        '  Binary file "/lib/x86_64-linux-gnu/libc.so.6", at +0x45330 [0x7f1a2e845330]\n'
        '  Binary file "/lib/x86_64-linux-gnu/libcuda.so.1", at +0x1a2b3c [0x7f19b0a2b3c0]\n'
    ),
    "kernel": (
        "[ 100.1] python3[4242]: segfault at 10 ip 00007f2b3c4d5e6f sp 00007ffd12345678 error 4 in "
        "libcuda.so.550.54.14[7f2b3c000000+1a2b000]\n"
    ),
    "kernel, a trap": (
        "traps: python[4242] general protection fault ip:7f2b3c4d5e6f sp:7ffd12345678 error:0 in "
        "libcuda.so.535.104.05[7f2b3c000000+1a2b000]\n"
    ),
    "Windows": (
        "Faulting application name: python.exe, version: 3.11.9150.1013\n"
        "Faulting module name: nvcuda64.dll, version: 32.0.15.6094\n"
    ),
}


@pytest.mark.parametrize("name", BACKTRACES)
def test_the_top_frame_in_the_drivers_library_is_the_cause(name: str) -> None:
    code = -1073741819 if name == "Windows" else None
    assert report_of(BACKTRACES[name], exit_code=code).root_cause == "libcuda-crash"


@pytest.mark.parametrize(
    ("library", "first"),
    [
        ("libnccl.so.2", "nccl-intra-node-transport"),
        ("libcudnn_ops.so.9", "ld-library-path-shadow"),
        ("libtorch_cpu.so", "unknown-segfault"),
        ("libcudart.so.12", "unknown-segfault"),
    ],
)
def test_another_library_on_top_orders_the_hypotheses(library: str, first: str) -> None:
    frames = (
        f"#0  0x00007fffa16691bb in ?? () from /env/lib/{library}\n"
        f"#1  0x00007fffa1669200 in ?? () from /env/lib/libcuda.so.1\n"
    )
    signal = "Program received signal SIGSEGV, Segmentation fault.\n"
    assert hypotheses(signal + frames)[0] == first
    shown = [f for f in report_of(signal + frames).findings if f.cause == "unknown-segfault"]
    assert library in shown[0].detail


def test_a_backtrace_of_a_process_that_did_not_crash_is_no_crash() -> None:
    assert hypotheses(f"(gdb) attach 4242\n(gdb) bt\n#0  {FRAME}") == ["ending-not-told"]


NOT_SUPPORTED = "RuntimeError: CUDA error: operation not supported\n"


@pytest.mark.parametrize(
    "text",
    [
        "   GPU: NVIDIA L40S-48C. Max memory: 47.7 GB.\n"
        "RuntimeError: CUDA driver error: operation not supported\n",
        f"GPU 0: GRID A100-10C\n{NOT_SUPPORTED}",
        f"|   0  NVIDIA A40-48Q       On   | 00000000:02:01.0 Off |\n{NOT_SUPPORTED}",
        f"NVIDIA RTX6000-Ada-48Q\n{NOT_SUPPORTED}",
        "NVIDIA A100-1-5C MIG\ncudaErrorNotSupported: operation not supported\n",
        f"NVIDIA-Linux-x86_64-550.90.07-grid.run\n{NOT_SUPPORTED}",
        f"    Virtualization Mode               : VGPU\n{NOT_SUPPORTED}",
        f"systemd[1]: Started nvidia-gridd\n{NOT_SUPPORTED}",
    ],
)
def test_error_801_on_a_virtual_gpu_is_its_profile(text: str) -> None:
    assert report_of(text).root_cause == "vgpu-feature-gap"


def test_a_profile_name_that_is_stated_tells_a_virtual_gpu() -> None:
    facts = stated("NVIDIA L40S-48C", pins=("torch==2.6.0+cu124",), driver="535.183.01")
    assert report_of(NOT_SUPPORTED, facts=facts).root_cause == "vgpu-feature-gap"


def test_error_801_under_a_driver_older_than_the_build_is_a_feature_gap() -> None:
    facts = stated("NVIDIA A100-SXM4-80GB", pins=("torch==2.6.0+cu124",), driver="525.105.17")
    assert report_of(NOT_SUPPORTED, facts=facts).root_cause == "minor-compat-feature-gap"
    facts = stated(nvcc="12.3", driver="525.105.12")
    assert report_of(NOT_SUPPORTED, facts=facts).root_cause == "minor-compat-feature-gap"


@pytest.mark.parametrize(
    "facts",
    [
        stated("NVIDIA A100-SXM4-80GB", pins=("torch==2.6.0+cu124",), driver="570.86.15"),
        stated(nvcc="12.0", driver="535.104.05"),
        None,
    ],
)
def test_error_801_without_either_is_not_established(facts: Facts | None) -> None:
    found = hypotheses(NOT_SUPPORTED, facts)
    assert found[:2] == ["vgpu-feature-gap", "minor-compat-feature-gap"]


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 95] Operation not supported\n",
        "CUDA error: operation not supported on global/shared address space\n",
        "a100-40gb node, GPU NVIDIA A100-SXM4-40GB, id A100-40GB-7B-12\n",
        "    vGPU Software Licensed Product\n    Virtualization Mode : None\n",
    ],
)
def test_words_that_only_look_like_error_801_or_a_profile(text: str) -> None:
    report = report_of(f"{text}")
    assert not {"vgpu-feature-gap", "minor-compat-feature-gap"} & {f.cause for f in report.findings}


def test_a_full_query_of_a_whole_gpu_is_no_virtual_one() -> None:
    text = (
        "    Product Name                          : NVIDIA A100-SXM4-40GB\n"
        "    vGPU Device Capability\n"
        "    GPU Virtualization Mode\n"
        "        Virtualization Mode               : None\n"
        "    vGPU Software Licensed Product\n"
        f"{NOT_SUPPORTED}"
    )
    assert report_of(text).verdict is Status.UNKNOWN


NVML_RAISED = "pynvml.NVMLError_NotSupported: Not Supported\n"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (f"Device 0 : Thor\n{NVML_RAISED}", None),
        (NVML_RAISED, stated("NVIDIA Thor", platform="linux-aarch64")),
        (NVML_RAISED, stated("Jetson AGX Orin", platform="linux-aarch64")),
        (f"Orin (nvgpu)\n{NVML_RAISED}", None),
        ("L4T 35.4\npynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found\n", None),
        ("Linux orin 5.15.148-tegra aarch64\npynvml.nvml.NVMLError_Uninitialized: gone\n", None),
    ],
)
def test_nvml_that_fails_on_a_board(text: str, facts: Facts | None) -> None:
    assert report_of(text, facts=facts).root_cause == "nvml-missing-tegra"


def test_nvml_that_is_missed_on_a_board_by_a_warning_is_a_remark() -> None:
    text = f"JetPack 6.2\nUserWarning: Can't initialize NVML\n{STEP}"
    assert report_of(text).verdict is Status.WARN


@pytest.mark.parametrize(
    "text",
    [
        ">>> torch.cuda.device_count()\nUserWarning: Can't initialize NVML\n0\n",
        "UserWarning: Can't initialize NVML\n>>> torch.cuda.is_available()\nFalse\n",
        "Failed to initialize NVML: Insufficient Permissions\n",
        "nvmlInit_v2() failed: something\n",
        "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found\n",
    ],
)
def test_nvml_that_does_not_start_names_no_cause(text: str) -> None:
    found = hypotheses(text)
    assert {"no-gpu-visible", "nvml-cgroup-reload", "nvml-kernel-userspace-mismatch"} <= set(found)


def test_nvml_that_does_not_start_beside_a_run_that_trains_is_nothing() -> None:
    assert (
        report_of(f"UserWarning: Can't initialize NVML\n{STEP}", exit_code=0).verdict is Status.OK
    )


NO_DEVICE = "Error at driver init: Call to cuInit results in CUDA_ERROR_NO_DEVICE (100)\n"


@pytest.mark.parametrize(
    "text",
    [
        f"Windows 11 WSL2 CUDA 12.2\n{NO_DEVICE}",
        f"Linux-5.15.153.1-microsoft-standard-WSL2-x86_64\n{NO_DEVICE}",
        "WSL version: 2.1.5.0\nRuntimeError: No CUDA GPUs are available\n",
    ],
)
def test_a_libcuda_that_finds_nothing_under_wsl_is_another_one(text: str) -> None:
    assert report_of(text).root_cause == "wsl-driver-shadow"


@pytest.mark.parametrize(
    "text",
    [
        NO_DEVICE,
        f"WSL2\n$ CUDA_VISIBLE_DEVICES=-1 python train.py\n{NO_DEVICE}",
        'WSL2\nexport CUDA_VISIBLE_DEVICES=""\nRuntimeError: No CUDA GPUs are available\n',
        "WSL2\nRuntimeError: Found no NVIDIA driver on your system.\n",
    ],
)
def test_no_device_elsewhere_or_hidden_is_not_visible(text: str) -> None:
    assert report_of(text).root_cause == "no-gpu-visible"


def test_a_driver_before_minor_compatibility_can_be_too_old_within_its_major() -> None:
    words = "RuntimeError: The NVIDIA driver on your system is too old (found version {}).\n"
    assert report_of(words.format(10000)).root_cause == "driver-too-old-for-cuda"
    assert report_of(words.format(11040)).root_cause == "driver-too-old-for-cuda-major"
