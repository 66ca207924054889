"""The table of statuses: found by names, numbers and messages, and held against headers."""

from __future__ import annotations

import pytest

from envguard.matrix.loader import Matrix
from envguard.matrix.statuses import StatusTable
from scripts.verify_errors import compare_statuses, extra_statuses, main, parse_header

MATRIX = Matrix.load()
TABLE = MATRIX.statuses


# Typed by hand: driver_types.h, cuda.h, nccl.h, cudnn_graph.h, NVIDIA's Xid catalog.
@pytest.mark.parametrize(
    ("words", "layer", "codes"),
    [
        ("xid-79", "xid", [79]),
        ("NVRM: Xid 48", "xid", [48]),
        ("CUDA error 802", "cuda", [802]),
        ("Error 802: system not yet initialized", "cuda", [802]),
        ("CUDA error: an illegal memory access was encountered", "cuda", [700]),
        ("CUDA_ERROR_UNKNOWN", "cuda", [999]),
        ("Misaligned address.", "cuda", [716]),
        ("Cuda failure 'peer access is not supported'", "cuda", [217]),
        ("operation not supported on global/shared address space", "cuda", [717]),
        ("CUDNN_STATUS_NOT_SUPPORTED", "cudnn", [3000, 9]),
        (
            "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            "cublas",
            [1],
        ),
        ("ncclRemoteError", "nccl", [6]),
    ],
)
def test_statuses_are_found_by_what_people_paste(words: str, layer: str, codes: list[int]) -> None:
    found = TABLE.find(words)
    assert [row.code for row in found] == codes
    assert {row.layer for row in found} == {layer}


@pytest.mark.parametrize("words", ["no such error", "xid-9999", "nccl", "CUDA 12.4", ""])
def test_other_words_mean_no_status(words: str) -> None:
    assert TABLE.find(words) == ()


def test_the_runtime_and_the_driver_share_a_row() -> None:
    row = TABLE.status("cuda", 209)
    assert row is not None
    assert (row.name, row.driver) == (
        "cudaErrorNoKernelImageForDevice",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
    )


def test_an_nccl_result_is_found_by_the_start_of_its_text() -> None:
    row = TABLE.nccl("unhandled cuda error (run with NCCL_DEBUG=INFO for details)")
    assert row is not None
    assert row.code == 1


def test_the_causes_of_statuses_are_causes() -> None:
    assert [r.name for r in TABLE.rows if r.cause and MATRIX.causes.cause(r.cause) is None] == []


def test_tables_of_statuses_are_read_when_asked_for_only() -> None:
    matrix = Matrix.load()
    _ = matrix.signals
    assert not any(isinstance(value, StatusTable) for value in vars(matrix).values())


_HEADER = """
/* cublasOld_t = 99 */
typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1, // CUBLAS_STATUS_GONE = 2
  CUBLAS_STATUS_ALLOC_FAILED = 0x4,
  CUBLAS_STATUS_NEW = 99
} cublasStatus_t;
typedef enum { CUBLAS_STATUS_OTHER = 5 } cublasFillMode_t;
"""


def test_a_header_is_compared_by_name_and_number() -> None:
    header = parse_header("cublas_api.h", _HEADER)
    assert header.codes == {
        "CUBLAS_STATUS_NOT_INITIALIZED": 1,
        "CUBLAS_STATUS_ALLOC_FAILED": 4,
        "CUBLAS_STATUS_NEW": 99,
    }
    assert list(compare_statuses(header, TABLE)) == [
        "CUBLAS_STATUS_ALLOC_FAILED: is 4, the table says 3",
        "CUBLAS_STATUS_NEW: 99 is missing",
    ]
    extra = list(extra_statuses([header], TABLE))
    assert "CUBLAS_STATUS_NOT_SUPPORTED: 15 is in none of the headers that were read" in extra


def test_a_header_without_statuses_is_no_agreement() -> None:
    lines = list(compare_statuses(parse_header("nccl.h", "int x;"), TABLE))
    assert lines == ["nccl: the header defines no status that can be read"]


def test_xids_are_read_from_the_header_of_the_kernel_module() -> None:
    text = "#define GSP_ERROR        (120)\n#define ROBUST_CHANNEL_LAST_ERROR   (176)\n"
    header = parse_header("nverror.h", text)
    assert header.codes == {"GSP_ERROR": 120}
    assert list(compare_statuses(header, TABLE)) == []


def test_an_enum_with_a_macro_before_its_name_is_read() -> None:
    text = "enum __device_builtin__ cudaError\n{\n cudaSuccess = 0,\n cudaErrorUnknown = 999\n};"
    assert parse_header("driver_types.h", text).codes == {"cudaErrorUnknown": 999}


@pytest.mark.network
def test_the_table_agrees_with_a_real_wheel(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nvidia-cublas-cu12==12.9.1.4"]) == 0
    assert "1 headers, 9 names" in capsys.readouterr().err
