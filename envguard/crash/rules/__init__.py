"""Crash rules: pure functions from a case to findings, one file per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks import CAUSE_ORDER as ENVIRONMENT_ORDER
from envguard.crash.rules.builds import check_build_words, check_toolkit_version
from envguard.crash.rules.companions import (
    check_companion_words,
    check_vision_operators,
    check_xformers,
)
from envguard.crash.rules.devices import (
    check_not_supported,
    check_nvml_on_boards,
    check_ordinal,
)
from envguard.crash.rules.driver import (
    check_driver_age,
    check_driver_words,
    check_no_gpu,
)
from envguard.crash.rules.gpu_code import check_missing_code, check_named_symbol
from envguard.crash.rules.gpu_memory import check_gpu_memory, check_gpu_words
from envguard.crash.rules.hardware import check_hardware, check_kernel_faults
from envguard.crash.rules.host_memory import check_host_memory, check_refused_allocation
from envguard.crash.rules.imports import (
    check_import_words,
    check_missing_library,
    check_system_library,
    check_undefined_symbol,
)
from envguard.crash.rules.installs import (
    check_cpu_build_installed,
    check_guessed_backend,
    check_index_exists,
    check_kept_torch,
    check_other_interpreter,
    check_torch_for_board,
    check_unserved_requests,
)
from envguard.crash.rules.kernel_driver import check_kernel_words
from envguard.crash.rules.known_breaks import check_known_breaks
from envguard.crash.rules.known_bugs import check_known_bugs
from envguard.crash.rules.launchers import (
    check_asked_to_stop,
    check_forced_kill,
    check_launcher_words,
)
from envguard.crash.rules.native import (
    check_foreign_torch,
    check_libcuda_crash,
    check_shadowed_libraries,
    check_transport,
)
from envguard.crash.rules.nccl import check_nccl_words, check_watchdog
from envguard.crash.rules.packages import check_missing_names, check_package_words
from envguard.crash.rules.program import check_disk, check_numerics, check_program_words
from envguard.crash.rules.shared_memory import (
    check_mapped_storage,
    check_removed_shared_memory,
    check_shared_memory,
    check_shared_memory_leak,
)
from envguard.crash.rules.site_roots import check_site_roots, check_torch_file
from envguard.crash.rules.stops import check_stopped
from envguard.crash.rules.toolchain import check_toolchain_words
from envguard.crash.rules.workers import check_killed_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.crash.case import Case
    from envguard.facts.findings import Finding

    Rule = Callable[[Case], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    check_kernel_words,
    check_driver_words,
    check_driver_age,
    check_missing_code,
    check_named_symbol,
    check_no_gpu,
    check_nvml_on_boards,
    check_not_supported,
    check_ordinal,
    check_import_words,
    check_known_breaks,
    check_package_words,
    check_missing_names,
    check_build_words,
    check_toolchain_words,
    check_site_roots,
    check_torch_file,
    check_companion_words,
    check_vision_operators,
    check_xformers,
    check_kept_torch,
    check_cpu_build_installed,
    check_guessed_backend,
    check_other_interpreter,
    check_unserved_requests,
    check_index_exists,
    check_torch_for_board,
    check_undefined_symbol,
    check_missing_library,
    check_system_library,
    check_toolkit_version,
    check_hardware,
    check_kernel_faults,
    check_host_memory,
    check_refused_allocation,
    check_killed_worker,
    check_shared_memory_leak,
    check_shared_memory,
    check_mapped_storage,
    check_removed_shared_memory,
    check_gpu_words,
    check_gpu_memory,
    check_launcher_words,
    check_asked_to_stop,
    check_stopped,
    check_forced_kill,
    check_known_bugs,
    check_libcuda_crash,
    check_shadowed_libraries,
    check_foreign_torch,
    check_transport,
    check_nccl_words,
    check_watchdog,
    check_disk,
    check_numerics,
    check_program_words,
)

# The cause that explains the others stands first. What is wrong with the environment comes before
# what a program says about it; a fault of the machine before what it makes a program do; who asked
# for the end before how it ended; full memory before the ranks that wait; time-outs last, because
# a rank that does not arrive has its own reason.
_FIRST = (
    "kernel-module-flavour",
    "driver-libs-baked-in-image",
    "nvml-kernel-userspace-mismatch",
    "nvml-cgroup-reload",
    "compat-libcuda-in-image-on-geforce",
    "fabric-manager-missing",
    "vgpu-licence",
    "vgpu-feature-gap",
    "mig-uuid-parsing",
    "libcuda-crash",
    "gpu-init-failed",
)
_LAST = (
    "resolver-auto-backend",
    "resolver-local-version",
    "already-satisfied-other-tag",
    "build-isolation",
    "toolkit-major-mismatch",
    "toolkit-missing",
    "toolkit-too-old-for-gpu",
    "host-compiler-not-accepted",
    "compiler-too-old-for-torch",
    "compiler-missing",
    "python-headers-missing",
    "ninja-missing",
    "build-out-of-memory",
    "distutils-missing",
    "torch-missing",
    "ds-nccl-eager-connect",
    "ds-too-old-for-torch",
    "ds-too-old-for-numpy",
    "torch-too-old-for-numpy",
    "numpy-interface-mismatch",
    "torch-too-old-for-package",
    "package-too-old-for-torch",
    "requirement-not-met",
    "package-versions-differ",
    "setuptools-without-pkg-resources",
    "transformers-regression",
    "torch-release-bug",
    "abi-cxx11-flag",
    "abi-torch-version",
    "ld-library-path-shadow",
    "nccl-shadowed",
    "cudart-major-mismatch",
    "libstdcxx-mismatch",
    "glibc-too-old",
    "vendor-lib-bug",
    "torch-release-bug",
    "vision-cpu-build",
    "companion-from-other-index",
    "vision-torch-mismatch",
    "cuda-library-missing",
    "shared-library-missing",
    "extension-build-failed",
    "symbol-missing",
    "extension-lacks-code-for-gpu",
    "gpu-hardware-fault",
    "gpu-driver-fault",
    "scheduler-time-limit",
    "scheduler-preemption",
    "userspace-oom-daemon",
    "node-memory-eviction",
    "shm-leak",
    "host-oom-rank0-gather",
    "host-oom-save",
    "host-oom-resume",
    "host-oom-per-rank-load",
    "host-oom-load",
    "host-oom-growth",
    "host-oom-optimizer-offload",
    "container-memory-limit",
    "host-memory-exhausted",
    "host-allocation-refused",
    "node-failure",
    "shm-removed-by-logind",
    "shm-too-small",
    "sigbus-from-mmap-storage",
    "disk-full",
    "zero-layout-changed",
    "weights-only-default",
    "process-limit",
    "open-files-limit",
    "memlock-too-small",
    "nvml-assert-masks-oom",
    "nvml-missing-tegra",
    "pinned-host-memory-limit",
    "gpu-memory-taken",
    "gpu-oom-zero2-full-params",
    "gpu-oom-states-plus-activations",
    "index-out-of-range-on-gpu",
    "gpu-kernel-fault",
    "nccl-versions-differ",
    "nccl-no-interface",
    "nccl-intra-node-transport",
    "sighup-terminal-closed",
    "interrupted",
    "sigterm-from-supervisor",
    "nccl-watchdog-abort",
    "launcher-sigkill-after-sigterm",
)
CAUSE_ORDER: tuple[str, ...] = (
    *_FIRST,
    *(cause for cause in ENVIRONMENT_ORDER if cause not in {*_FIRST, *_LAST}),
    *_LAST,
)
