"""The forms in which single lines state a fact: labels that reports use, and sentences."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cached_property

from envguard.values import dataclass


class FormKind(IntEnum):
    """How much a form tells that the fact is about the process at hand; the least value wins."""

    OWN_WORD = 0  # the program itself names what it runs on
    LABEL = 1  # a label and a value, as environment reports have them
    PROSE = 2  # a person's or another program's sentence


@dataclass(frozen=True)
class LineForm:
    """One form.

    Args:
        field: What it states: ``torch``, ``cuda`` (torch's), ``nvcc``, ``any_cuda`` (nobody says
            whose), ``driver``, ``driver_cuda``, ``driver_number`` (12040), ``gpu``, ``gpu_count``,
            ``capability``, ``python``, ``platform``, ``os``, ``libc``, ``gcc``, ``ram``,
            ``architecture``, ``available``, ``package``.
        literals: Texts in lower case of which a line that it matches holds one, whatever its case.
        regex: Its first group is the value; ``name``, where it has that, the package or the
            numbers of GPUs, ``count`` how many.
        kind: See there.
    """

    field: str
    literals: tuple[str, ...]
    regex: str
    kind: FormKind

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern, made when a line first holds one of the literals."""
        return re.compile(self.regex)

    def may_match(self, lowered: str) -> bool:
        """Whether a text, in lower case, holds one of the literals."""
        return any(text in lowered for text in self.literals)


# Labels in lower case without marks and brackets -> what their value is.
LABELS: dict[str, str] = {
    **dict.fromkeys(
        ("pytorch version", "torch version", "pytorch", "torch", "py torch", "pytorch versions"),
        "torch",
    ),
    **dict.fromkeys(
        (
            "cuda used to build pytorch",
            "torch cuda version",
            "pytorch cuda version",
            "torch version cuda",
            "torch cuda",
            "pytorch cuda",
            "cuda runtime",
            "torch built with cuda",
            "torch compiled with cuda",
            "cuda version in torch",
        ),
        "cuda",
    ),
    **dict.fromkeys(
        (
            "nvcc",
            "nvcc version",
            "cuda compiler",
            "cuda compiler version",
            "cuda toolkit",
            "cuda toolkit version",
            "cuda runtime version",
            "system cuda",
            "system cuda version",
            "local cuda version",
        ),
        "nvcc",
    ),
    **dict.fromkeys(("cuda", "cuda version", "cuda versions"), "any_cuda"),
    **dict.fromkeys(
        (
            "nvidia driver version",
            "nvidia driver",
            "nvidia driver versions",
            "nvidia gpu driver",
            "driver version",
            "driver",
            "gpu driver",
            "gpu driver version",
            "graphics driver",
            "cuda driver version",
            "kmd version",
        ),
        "driver",
    ),
    **dict.fromkeys(
        ("driver cuda version", "cuda driver", "max cuda version", "nvidia-smi cuda version"),
        "driver_cuda",
    ),
    **dict.fromkeys(
        (
            "gpu",
            "gpus",
            "gpu type",
            "gpu types",
            "gpu model",
            "gpu models",
            "gpu name",
            "gpu names",
            "gpu device",
            "gpu devices",
            "gpu info",
            "gpu card",
            "gpu hardware",
            "gpu used",
            "gpu models and configuration",
            "nvidia gpu",
            "device",
            "devices",
            "device name",
            "cuda device",
            "cuda devices",
            "cuda device name",
            "torch cuda get device name",
            "torch cuda get device name 0",
            "torch detected gpu",
            "graphics card",
            "video card",
            "graphics",
            "hardware",
            "accelerator",
            "accelerators",
            "using gpu",
            "product name",
            "name",
        ),
        "gpu",
    ),
    **dict.fromkeys(
        (
            "gpu number",
            "gpu count",
            "number of gpus",
            "num gpus",
            "gpus number",
            "torch cuda device count",
            "device count",
        ),
        "gpu_count",
    ),
    **dict.fromkeys(
        (
            "compute capability",
            "gpu compute capability",
            "cuda capability",
            "cuda compute capability",
            "gpu arch",
        ),
        "capability",
    ),
    **dict.fromkeys(("python version", "python", "python versions"), "python"),
    **dict.fromkeys(
        ("platform", "os platform", "system platform", "python platform", "sys platform"),
        "platform",
    ),
    **dict.fromkeys(
        ("os", "operating system", "os version", "system", "os name", "distro", "pretty name"),
        "os",
    ),
    **dict.fromkeys(("libc", "libc version", "glibc", "glibc version"), "libc"),
    **dict.fromkeys(("gcc", "gcc version", "c compiler version"), "gcc"),
    **dict.fromkeys(("system ram", "ram", "total ram", "cpu ram", "host ram"), "ram"),
    **dict.fromkeys(("architecture", "processor", "machine"), "architecture"),
    **dict.fromkeys(
        ("is cuda available", "cuda available", "torch cuda is available"), "available"
    ),
}
# What else a line with one of these beginnings names: ``CUDA`` in Lightning's nested list.
SECTIONS: dict[tuple[str, str], str] = {
    ("cuda", "version"): "cuda",
    ("system", "python"): "python",
    ("system", "os"): "os",
}
# Distributions whose version people state beside torch's, by the name that they write.
PACKAGES = frozenset(
    {
        "accelerate",
        "apex",
        "auto-gptq",
        "autoawq",
        "axolotl",
        "bitsandbytes",
        "causal-conv1d",
        "colossalai",
        "cupy",
        "datasets",
        "deepspeed",
        "detectron2",
        "dgl",
        "diffusers",
        "fairseq",
        "flash-attn",
        "flashinfer",
        "flashinfer-python",
        "gptqmodel",
        "kernels",
        "liger-kernel",
        "lightning",
        "llamafactory",
        "llmcompressor",
        "lmdeploy",
        "mamba-ssm",
        "megatron-core",
        "mmcv",
        "mmcv-full",
        "mmdet",
        "mmengine",
        "ms-swift",
        "nemo-toolkit",
        "numba",
        "numpy",
        "onnxruntime-gpu",
        "openrlhf",
        "optimum",
        "peft",
        "pytorch-lightning",
        "pytorch-triton",
        "ray",
        "safetensors",
        "sageattention",
        "scipy",
        "sentence-transformers",
        "setuptools",
        "sgl-kernel",
        "sglang",
        "spconv",
        "tensorrt",
        "tensorrt-llm",
        "tokenizers",
        "torchao",
        "torchaudio",
        "torchdata",
        "torchtext",
        "torchtune",
        "torchvision",
        "transformer-engine",
        "transformers",
        "triton",
        "triton-windows",
        "trl",
        "unsloth",
        "unsloth-zoo",
        "verl",
        "vllm",
        "xformers",
    }
)
# Other spellings of them.
ALIASES = {
    "flash attention": "flash-attn",
    "flash attn": "flash-attn",
    "flashattention": "flash-attn",
    "flash-attention": "flash-attn",
    "transformer engine": "transformer-engine",
    "hugging face transformers": "transformers",
    "huggingface transformers": "transformers",
    "pytorch lightning": "pytorch-lightning",
    "torch vision": "torchvision",
    "torch audio": "torchaudio",
    "swift": "ms-swift",
}

_TWO_OR_MORE = r"[0-9]{1,2}\.[0-9]{1,3}(?:\.[0-9]{1,4})?"
TORCH_VERSION = (
    r"[0-9]\.[0-9]{1,2}(?:\.[0-9]{1,2})?(?:(?:a|b|rc|\.dev|\.post)[0-9]{1,8})?"
    r"(?:\+[A-Za-z0-9.]{1,40})?"
)
DRIVER_VERSION = r"[3-9][0-9]{2}(?:\.[0-9]{1,3}){1,2}"
# Product names as they stand in sentences; what else looks like one is passed over.
_BRANDED = (
    r"(?:NVIDIA |nvidia |Nvidia )?(?:GeForce |Geforce |geforce )?"
    r"(?:(?:RTX|rtx) ?(?:PRO|Pro|pro) ?[0-9]{3,4}D?|(?:RTX|rtx|GTX|gtx)[ -]?A?[0-9]{4}|"
    r"(?:Quadro|quadro) (?:RTX )?[A-Z]{0,2}[0-9]{3,4}|(?:TITAN|Titan|titan) (?:RTX|Xp|X|V)|"
    r"(?:Tesla|tesla)[ -]?[VPKTM][0-9]{1,3}S?)"
)
_BOARD = (
    r"(?:NVIDIA |nvidia |Nvidia )?"
    r"(?:[Vv]100S?|[Pp]100|P40|T4|K80|M40|M60|[Aa](?:100|800|10G|6000|5000|4000)|A(?:10|16|30|40)|"
    r"L40S?|L20|L4|[Hh](?:100|200|800)|H20|B(?:100|200|300)|GH200|GB(?:10|200|300))"
)
_MORE = (
    r"(?:(?:[ -]?(?:Ti|TI|ti|SUPER|Super|super|D|SXM[2-6]?|sxm[2-6]?|PCI[Ee]|HBM[23]e?|NVL|MIG|"
    r"Ada|ada|Blackwell|Max-Q|Generation|Laptop|Mobile|Server|Workstation|Edition|GPU|OC)|"
    r"[ -](?:[0-9]{1,3} ?(?:GB|G|gb)\b|[0-9]g\.[0-9]{1,2}gb))(?![A-Za-z]))*"
)
GPU_NAME = rf"(?:{_BRANDED}|{_BOARD})(?![0-9A-Za-z]|\.[0-9]){_MORE}"
_NOT_INSIDE = r"(?<![\w/.\-@=:+])"
_COUNT = r"(?:(?P<count>[0-9]{1,3}) ?[x×*] ?)?"  # noqa: RUF001 - people type it
_LAST = r"(?: ?[x×*] ?(?P<last>[0-9]{1,3})\b)?"  # noqa: RUF001 - likewise
_BARE = r"(?:[1-5]0[5-9]0)(?: ?(?:Ti|ti|TI|SUPER|super|D)\b)?"


# Every product name that stands for a GPU holds one of these.
GPU_LITERALS = (
    *("rtx", "gtx", "quadro", "titan", "tesla", "v100", "p100", "p40", "t4", "k80", "m40", "m60"),
    *("a10", "a16", "a30", "a40", "a50", "a60", "a80", "l20", "l4"),
    *("h10", "h20", "h80", "b10", "b20", "b30"),
)


def _forms(kind: FormKind, *rows: tuple[str, str | tuple[str, ...], str]) -> tuple[LineForm, ...]:
    return tuple(
        LineForm(field, (words,) if isinstance(words, str) else words, regex, kind)
        for field, words, regex in rows
    )


_OWN_WORDS = _forms(
    FormKind.OWN_WORD,
    # torch, of the driver that it met and of the GPU that it runs on
    ("driver_number", "(found version ", r"\(found version ([0-9]{4,5})\)"),
    (
        "gpu",
        " with cuda capability sm_",
        r"((?:NVIDIA |Tesla |GeForce |Quadro )[^:\"'|]{2,60}?) with CUDA capability sm_[0-9]",
    ),
    (
        "gpu",
        "which is of cuda capability",
        r"Found GPU ?[0-9]{1,3} (.{3,60}?) which is of cuda capability",
    ),
    # its extension builder and DeepSpeed's, of the toolkit and of torch
    ("nvcc", "detected cuda version", rf"detected CUDA version \(({_TWO_OR_MORE})\)"),
    ("cuda", "pytorch (", rf"(?:^|compile )PyTorch \(({_TWO_OR_MORE})\)\. Please"),
    ("nvcc", "installed cuda version", rf"Installed CUDA version ({_TWO_OR_MORE}) does not match"),
    (
        "cuda",
        "version torch was compiled with",
        rf"version torch was compiled with ({_TWO_OR_MORE})",
    ),
    ("cuda", "cuda runtime ", rf"^[ -]*CUDA Runtime ({_TWO_OR_MORE})$"),
    # programs that print their own version
    ("nvcc", "cuda compilation tools", rf"Cuda compilation tools, release ({_TWO_OR_MORE})"),
    ("gcc", "gcc (", r"^gcc \((.{1,80}\) [0-9.]{3,12})"),
    ("libc", "ldd (", r"^ldd \(.{1,80}\) ([0-9]\.[0-9]{1,3})$"),
    ("python", "python ", rf"^Python ({_TWO_OR_MORE})(?:$| \(|\s*\|)"),
    ("python", "python version is", rf"\bPython version is ({_TWO_OR_MORE})"),
    (
        "platform",
        "linux ",
        r"^(Linux \S{1,80} [0-9]\S{1,80} #\S.{0,160} (?:x86_64|aarch64)(?: GNU/Linux)?)$",
    ),
    (
        "driver",
        "nvidia-smi ",
        rf"NVIDIA-SMI .{{0,60}}(?:Driver|KMD) Version ?: ?({DRIVER_VERSION})",
    ),
    (
        "driver_cuda",
        "nvidia-smi ",
        rf"NVIDIA-SMI .{{0,120}}CUDA (?:UMD )?Version ?: ?({_TWO_OR_MORE})",
    ),
    ("driver", "driver ", r"^(?:NVIDIA )?[Dd]river ([0-9.]{4,14})$"),
    ("driver", "nvrm version: nvidia", rf"NVRM version: NVIDIA .{{0,60}}?({DRIVER_VERSION})"),
    ("driver", "kernel version ", rf"kernel version ({DRIVER_VERSION}) does not match"),
    # front ends and trainers
    ("gpu", "device: cuda:", r"^Device: cuda:[0-9]{1,2} (.{3,60}?) : \w"),
    ("gpu", "torch detected gpu: ", r"Torch detected GPU: (.{3,60}?) VRAM"),
    ("ram", "total vram ", r"Total VRAM [0-9]{3,7} MB, total RAM ([0-9]{3,8} MB)"),
    ("cuda", "torch backend: ", rf"Torch backend: nVidia CUDA ({_TWO_OR_MORE})"),
    ("torch", " torch ", rf"(?:INFO|\]) +Torch ({TORCH_VERSION})$"),
    ("gpu", "num gpus", r"^\\\\ +/\| +(NVIDIA .{3,60}?)\. Num GPUs"),
    ("gpu_count", "num gpus", r"\bNum GPUs ?= ?([0-9]{1,3})\b"),
    ("gpu", "max memory: ", r"\bGPU: (.{3,60}?)\. Max memory: "),
    ("torch", "torch: ", rf"\bTorch: ({TORCH_VERSION})\. CUDA[ :=]"),
    ("cuda", "cuda toolkit", rf"\. CUDA Toolkit[:=\s]{{1,3}}({_TWO_OR_MORE})\. Triton"),
    (
        "package",
        "transformers",
        r"\b(?P<name>Transformers)[:=\s]{1,3}([0-9][0-9A-Za-z.]{2,20}?)\.(?:$| )",
    ),
    ("package", "unsloth ", r"\b(?P<name>Unsloth) ([0-9]{4}\.[0-9.]{2,10}): "),
    ("package", "xformers = ", r"\[?(?P<name>Xformers) = ([0-9][0-9A-Za-z.]{2,20}?)\. "),
    ("package", "deepspeed info: version=", r"(?P<name>DeepSpeed) info: version=([^,\s]{3,40})"),
    ("package", "llm engine (", r"\bLLM engine \((?P<name>)v([0-9][0-9A-Za-z.+]{2,30})\)"),
    (
        "capability",
        "highest compute capability: ",
        r"Highest Compute Capability: \(?([0-9]{1,2}(?:\.|, )[0-9])\)?",
    ),
    # pip and uv, of what is installed
    (
        "package",
        "requirement already satisfied: ",
        r"Requirement already satisfied: (?P<name>[A-Za-z0-9._-]{1,80})\S{0,80} in "
        r".{1,200}\(([0-9][^()\s]{1,60})\)$",
    ),
    (
        "package",
        "but you have ",
        r"but you have (?P<name>[A-Za-z0-9._-]{1,80}) ([0-9]\S{1,60}) which is",
    ),
    ("torch", "(you have ", rf"PyTorch +\S{{3,40}}.{{0,40}}\(you have ({TORCH_VERSION})\)"),
    ("python", "(you have ", rf"Python +\S{{3,20}} \(you have ({_TWO_OR_MORE})\)"),
    ("package", "==", r"^\+ (?P<name>[A-Za-z0-9._-]{1,80})==([0-9]\S{1,60})$"),
)
_SENTENCES = _forms(
    FormKind.PROSE,
    (
        "torch",
        "torch",
        rf"{_NOT_INSIDE}(?:[Pp]y)?[Tt]orch(?: [Vv]ersion| ver\.?)?[ :=]{{1,3}}[vV]?"
        rf"({TORCH_VERSION})(?![\w.]*[\w/])",
    ),
    ("torch", "torch==", rf"{_NOT_INSIDE}(?:[Pp]y)?[Tt]orch==({TORCH_VERSION})(?![\w.]*[\w/])"),
    (
        "any_cuda",
        "cuda",
        rf"{_NOT_INSIDE}(?:CUDA|cuda|Cuda)(?: [Vv]ersion)?[ :=]{{1,3}}[vV]?({_TWO_OR_MORE})",
    ),
    (
        "driver",
        "driver",
        rf"(?i:driver)s?(?i: version)?[ :=v]{{1,4}}({DRIVER_VERSION})(?![\d.]*\d)",
    ),
    ("driver", "driver", rf"(?<![\w.])({DRIVER_VERSION})(?i: (?:nvidia )?drivers?\b)"),
    (
        "driver_cuda",
        "cuda version",
        rf"(?:Driver Version: ?{DRIVER_VERSION} {{1,20}})CUDA Version: ?({_TWO_OR_MORE})",
    ),
    (
        "nvcc",
        ("nvcc", "cuda toolkit"),
        rf"{_NOT_INSIDE}(?:nvcc|CUDA [Tt]oolkit|cuda toolkit)[ :=]{{1,3}}[vV]?({_TWO_OR_MORE})",
    ),
    (
        "python",
        "python",
        rf"{_NOT_INSIDE}[Pp]ython(?: [Vv]ersion)?[ :=]{{1,3}}(3\.[0-9]{{1,2}}(?:\.[0-9]{{1,2}})?)",
    ),
    (
        "os",
        ("ubuntu", "debian", "centos", "rocky linux", "windows"),
        r"\b((?:Ubuntu|Debian|CentOS|Rocky Linux|Windows) ?"
        r"[0-9]{1,2}(?:\.[0-9]{2})?(?:\.[0-9])?)\b",
    ),
    ("gpu", GPU_LITERALS, rf"{_NOT_INSIDE}{_COUNT}({GPU_NAME})s?{_LAST}"),
    (
        "gpu",
        ("050", "060", "070", "080", "090"),
        rf"(?:{_NOT_INSIDE}(?P<count>[0-9]{{1,3}}) ?[x×*] ?|"  # noqa: RUF001 - people type it
        rf"\b(?:[Mm]y|[Aa]|[Oo]n|[Tt]wo|[Ff]our|[Ee]ight) )({_BARE})s?(?![\w/.]*[\w/])",
    ),
)
FORMS: tuple[LineForm, ...] = (*_OWN_WORDS, *_SENTENCES)
# A sentence with one of these is about another environment than the one that failed: a wish, an
# attempt, an advice, a comparison.
ELSEWHERE = (
    r"(?i)\b(?:requir\w*|needs?|needed|recommend\w*|support\w*|should|tried|try|tested|"
    r"previous\w*|earlier|before|used to|worked|works?|working|was fine|downgrad\w*|upgrad\w*|"
    r"install|reinstall\w*|installing|uninstall\w*|found existing|collecting|download\w*|"
    r"using cached|expect\w*|minimum|at least|(?:in)?compatible|built (?:for|with|against)|"
    r"compiled (?:for|with|against)|instead|if you|only|e\.g|same (?:problem|issue|error)|"
    r"or (?:higher|newer|later|above|lower|older)|because|depends|you require|has no|no matching|"
    r"could not find)\b|>=|<=|~=|!=|->|=>|<[0-9]|>[0-9]|^(?:FROM|RUN|ARG|ENV|pip|conda|uv) "
)
