"""What Python packages say when another version beside them lacks what they use."""

from __future__ import annotations

from envguard.crash.rules.model import Outcome, WordRule

_OLD_DEEPSPEED = "DeepSpeed is too old for this torch"
_TORCH_SIX = Outcome(
    "CRS030",
    "ds-too-old-for-torch",
    _OLD_DEEPSPEED,
    "torch 2.0 removed torch._six, which DeepSpeed imports before 0.8.2.",
    "upgrade DeepSpeed to 0.8.2 or newer; a stub module is no cure",
    ("python", "-m", "pip", "install", "deepspeed>=0.8.2"),
)

WORDS = (
    WordRule(
        Outcome(
            "CRS023",
            "vision-cpu-build",
            "torchvision is a CPU build beside a CUDA build of torch",
            "Its operators have no CUDA form.",
            "install torchvision from the index that torch came from",
        ),
        ("vision-cpu-kernel",),
    ),
    WordRule(
        Outcome(
            "CRS029",
            "companion-from-other-index",
            "torch and a companion were built for different CUDA releases",
            "They come from two indexes.",
            "install torch, torchvision and torchaudio in one step from one index",
        ),
        ("companion-cuda-differs",),
    ),
    WordRule(
        Outcome(
            "CRS025",
            "ld-library-path-shadow",
            "a cuDNN of another version stands before the one that torch brought",
            "LD_LIBRARY_PATH is searched before the wheel's own folders.",
            "unset LD_LIBRARY_PATH, or take the folders of other CUDA and cuDNN releases out of it",
            ("env", "-u", "LD_LIBRARY_PATH", "python", "-c", "import torch"),
        ),
        ("cudnn-differs",),
    ),
    WordRule(_TORCH_SIX, ("torch-six",), needs=("deepspeed-frame", "deepspeed-words")),
    WordRule(
        _TORCH_SIX, ("torch-six",), unless=("deepspeed-frame", "deepspeed-words", "site-frame")
    ),
    WordRule(
        Outcome(
            "CRS159",
            "package-too-old-for-torch",
            "a package imports torch._six, which torch 2.0 removed",
            "It was written for torch 1.",
            "upgrade the package in the traceback; a stub module is no cure",
        ),
        ("torch-six",),
        needs=("site-frame",),
        unless=("deepspeed-frame", "deepspeed-words"),
    ),
    WordRule(
        Outcome(
            "CRS030",
            "ds-too-old-for-torch",
            _OLD_DEEPSPEED,
            "torch 2.4 removed the name {name}, which DeepSpeed imports before 0.14.4.",
            "upgrade DeepSpeed to 0.14.4 or newer",
            ("python", "-m", "pip", "install", "deepspeed>=0.14.4"),
        ),
        ("elastic-names",),
    ),
    WordRule(
        Outcome(
            "CRS030",
            "ds-too-old-for-torch",
            _OLD_DEEPSPEED,
            "torch 2.6 loads weights only by default; DeepSpeed says otherwise from 0.16.0 on.",
            "upgrade DeepSpeed to 0.16.0 or newer",
            ("python", "-m", "pip", "install", "deepspeed>=0.16.0"),
        ),
        ("weights-only",),
        needs=("deepspeed-words", "deepspeed-frame"),
    ),
    WordRule(
        Outcome(
            "CRS057",
            "weights-only-default",
            "the checkpoint holds more than weights, and torch 2.6 and newer refuse that by "
            "default",
            "torch.load has weights_only=True unless told otherwise.",
            "upgrade the package that wrote or reads it; weights_only=False only for files you "
            "trust",
        ),
        ("weights-only",),
        unless=("deepspeed-words", "deepspeed-frame"),
    ),
    WordRule(
        Outcome(
            "CRS030",
            "ds-too-old-for-torch",
            "DeepSpeed compiles with an older C++ standard than this torch's headers want",
            "The headers want C++{standard}.",
            "upgrade DeepSpeed (0.9.3 for torch 2.1, 0.19.7 for torch 2.14)",
        ),
        ("cxx-standard",),
        needs=("deepspeed-words", "deepspeed-frame"),
    ),
    WordRule(
        Outcome(
            "CRS058",
            "torch-too-old-for-package",
            "a package uses what this torch does not have yet",
            "{name} came with a later torch.",
            "upgrade torch, or take an older release of the package in the traceback",
        ),
        ("torch-lacks-name",),
    ),
    WordRule(
        Outcome(
            "CRS031",
            "ds-too-old-for-numpy",
            "DeepSpeed uses a numpy name that this numpy removed",
            "numpy 2 (and 1.24 before it) dropped names that older DeepSpeed uses.",
            "upgrade DeepSpeed to 0.14.4 or newer, or install numpy below 2",
        ),
        ("numpy-alias", "numpy-bufsize"),
        needs=("deepspeed-frame", "deepspeed-words"),
    ),
    WordRule(
        Outcome(
            "CRS037",
            "numpy-interface-mismatch",
            "a package does not work with this numpy",
            "It was written or compiled for an older numpy.",
            "upgrade the package in the traceback, or install numpy below 2",
        ),
        ("numpy-alias", "numpy-abi", "numpy-bufsize"),
        unless=("deepspeed-frame", "deepspeed-words"),
    ),
    WordRule(
        Outcome(
            "CRS059",
            "setuptools-without-pkg-resources",
            "pkg_resources is not there",
            "setuptools no longer ships it from 82 on; older torch and packages import it.",
            "install setuptools below 82",
            ("python", "-m", "pip", "install", "setuptools<82"),
        ),
        ("pkg-resources",),
    ),
    WordRule(
        Outcome(
            "CRS104",
            "distutils-missing",
            "distutils is not there",
            "Python 3.12 and newer have none; setuptools brings it along.",
            "install setuptools",
            ("python", "-m", "pip", "install", "setuptools"),
        ),
        ("distutils-gone",),
    ),
    WordRule(
        Outcome(
            "CRS035",
            "transformers-regression",
            "this release of transformers does not work with DeepSpeed",
            "transformers 5.1.0 has a regression in its DeepSpeed set-up.",
            "install another release: transformers!=5.1.0",
        ),
        ("transformers-deepspeed-regression",),
    ),
)
