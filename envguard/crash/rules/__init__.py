"""Crash rules: pure functions from a case to findings, one file per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.cause_findings import check_shown
from envguard.crash.rules.build import (
    check_build_memory,
    check_host_compiler,
    check_toolkit_version,
)
from envguard.crash.rules.driver import (
    check_driver_age,
    check_no_gpu,
    check_not_supported,
    check_nvml_on_boards,
    check_ordinal,
)
from envguard.crash.rules.gpu_code import check_missing_code, check_named_symbol
from envguard.crash.rules.gpu_memory import check_gpu_memory
from envguard.crash.rules.hardware import check_hardware, check_kernel_faults
from envguard.crash.rules.host_memory import check_host_memory, check_refused_allocation
from envguard.crash.rules.imports import (
    check_missing_library,
    check_system_library,
    check_undefined_symbol,
    check_vision_operators,
    check_xformers,
)
from envguard.crash.rules.install import (
    check_cpu_build_installed,
    check_guessed_backend,
    check_index_exists,
    check_install_conflict,
    check_kept_torch,
    check_other_interpreter,
    check_site_roots,
    check_solver_words,
    check_torch_file,
    check_torch_for_board,
    check_unserved_requests,
)
from envguard.crash.rules.launchers import (
    check_asked_to_stop,
    check_forced_kill,
    check_stopped,
    check_store_barrier,
)
from envguard.crash.rules.native import (
    check_foreign_torch,
    check_known_bugs,
    check_libcuda_crash,
    check_shadowed_libraries,
)
from envguard.crash.rules.nccl import check_collectives, check_transport
from envguard.crash.rules.packages import check_known_breaks, check_missing_names
from envguard.crash.rules.program import check_disk, check_numerics
from envguard.crash.rules.shared_memory import (
    check_mapped_storage,
    check_removed_shared_memory,
    check_shared_memory,
    check_shared_memory_leak,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.crash.case import Case
    from envguard.facts.findings import Finding

    Rule = Callable[[Case], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    check_shown,
    check_driver_age,
    check_missing_code,
    check_named_symbol,
    check_no_gpu,
    check_nvml_on_boards,
    check_not_supported,
    check_ordinal,
    check_known_breaks,
    check_missing_names,
    check_site_roots,
    check_torch_file,
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
    check_host_compiler,
    check_build_memory,
    check_install_conflict,
    check_solver_words,
    check_hardware,
    check_kernel_faults,
    check_host_memory,
    check_refused_allocation,
    check_shared_memory_leak,
    check_shared_memory,
    check_mapped_storage,
    check_removed_shared_memory,
    check_gpu_memory,
    check_asked_to_stop,
    check_stopped,
    check_forced_kill,
    check_store_barrier,
    check_known_bugs,
    check_libcuda_crash,
    check_shadowed_libraries,
    check_foreign_torch,
    check_transport,
    check_collectives,
    check_disk,
    check_numerics,
)
