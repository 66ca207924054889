"""Checks: pure functions from facts and matrix to findings, one file per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.breaks import check_breaks
from envguard.checks.companions import (
    check_capability,
    check_features,
    check_foreign,
    check_python,
    check_requirements,
    check_triton,
)
from envguard.checks.compiled import (
    check_code_against_matrix,
    check_code_per_library,
    check_stale_caches,
)
from envguard.checks.container import (
    check_compat_libcuda,
    check_image_libraries,
    check_wsl_libcuda,
)
from envguard.checks.deepspeed import check_compilers, check_toolkit, check_windows_build
from envguard.checks.driver import (
    check_branch_life,
    check_driver_serves_cuda,
    check_driver_supports_gpus,
    check_fabric,
    check_kernel_module,
    check_vgpu,
)
from envguard.checks.gpu import (
    check_code_for_gpus,
    check_mig_instances,
    check_uuid_lists,
    check_visible_devices,
)
from envguard.checks.host import (
    check_container_memory,
    check_library_path,
    check_locked_memory,
    check_preload,
    check_shared_memory,
)
from envguard.checks.installs import (
    check_active_environment,
    check_duplicates,
    check_nvml_module,
    check_torch_is_one,
    check_torch_is_whole,
)
from envguard.checks.links import check_modules_link, check_shadowed_libraries
from envguard.checks.lock_record import check_lock_record
from envguard.checks.nvml import (
    check_cuda_initialises,
    check_libraries_match_kernel,
    check_nvml_access,
    check_nvml_on_tegra,
    check_sources_agree,
)
from envguard.checks.pairing import (
    check_built_for_torch,
    check_companion_cuda,
    check_nvidia_packages,
)
from envguard.checks.prebuilt import check_prebuilt_wheels, check_source_builds
from envguard.checks.presence import check_gpu_visible
from envguard.checks.wheel import (
    check_accelerator,
    check_build_published,
    check_c_library,
    check_jetson_build,
    check_python_tag,
    check_torch_present,
)
from envguard.checks.wishes import check_made_for_here, check_not_judged, check_wishes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.checks.context import CheckOptions
    from envguard.facts.facts import Facts
    from envguard.facts.findings import Finding
    from envguard.matrix.loader import Matrix

    Check = Callable[[Facts, Matrix, CheckOptions], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    check_made_for_here,
    check_torch_present,
    check_wishes,
    check_not_judged,
    check_lock_record,
    check_accelerator,
    check_gpu_visible,
    check_driver_supports_gpus,
    check_driver_serves_cuda,
    check_code_for_gpus,
    check_jetson_build,
    check_code_per_library,
    check_code_against_matrix,
    check_modules_link,
    check_shadowed_libraries,
    check_stale_caches,
    check_libraries_match_kernel,
    check_sources_agree,
    check_nvml_access,
    check_nvml_on_tegra,
    check_cuda_initialises,
    check_compat_libcuda,
    check_image_libraries,
    check_wsl_libcuda,
    check_kernel_module,
    check_fabric,
    check_vgpu,
    check_branch_life,
    check_visible_devices,
    check_mig_instances,
    check_uuid_lists,
    check_build_published,
    check_python_tag,
    check_c_library,
    check_torch_is_one,
    check_torch_is_whole,
    check_duplicates,
    check_active_environment,
    check_nvml_module,
    check_shared_memory,
    check_locked_memory,
    check_container_memory,
    check_library_path,
    check_preload,
    check_built_for_torch,
    check_companion_cuda,
    check_nvidia_packages,
    check_prebuilt_wheels,
    check_breaks,
    check_toolkit,
    check_compilers,
    check_windows_build,
    check_requirements,
    check_triton,
    check_features,
    check_python,
    check_capability,
    check_source_builds,
    check_foreign,
)


def run_checks(facts: Facts, matrix: Matrix, options: CheckOptions) -> tuple[Finding, ...]:
    """Run every check; all findings are kept.

    Args:
        facts: Completed facts (see :func:`envguard.matrix.complete.complete_facts`).
        matrix: The tables.
        options: What the user asked for.
    """
    return tuple(finding for check in CHECKS for finding in check(facts, matrix, options))
