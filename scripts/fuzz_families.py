"""The families of readers, and how an odd input of each is made and handed to the program.

A family is a function: it writes the files of one case into a folder and returns the arguments
that make envguard read them.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envguard.ingest.plain_text import decode_text
from scripts.fuzz_grammar import (
    WORDS,
    change_bytes,
    change_text,
    change_tree,
    write_json,
    write_toml,
    write_yaml,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

_ROOT = Path(__file__).resolve().parent.parent
_TESTS, _TABLES = _ROOT / "tests", _ROOT / "compat_matrix"
_STATED = ("--gpu", "Tesla V100", "--driver", "535.104.05", "--platform", "linux-x86_64")
_PLAN = ("--gpus", "8", "--gpu-memory", "80", "--host-memory", "1024")
_FORMATS = ("text", "json", "markdown", "sarif", "junit", "github")
_PHASES = ("import", "init", "load", "train", "save", "resume", "shutdown")

_DEEPSPEED: dict[str, Any] = {
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "offload_param": {"device": "nvme", "nvme_path": "/local", "pin_memory": False},
        "overlap_comm": True,
        "sub_group_size": 1e9,
        "reduce_bucket_size": "auto",
        "allgather_bucket_size": 5e8,
        "stage3_prefetch_bucket_size": 5e7,
        "stage3_param_persistence_threshold": 100000,
        "stage3_max_live_parameters": 1e9,
        "stage3_gather_16bit_weights_on_model_save": True,
    },
    "bf16": {"enabled": True},
    "fp16": {"enabled": False},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "activation_checkpointing": {"partition_activations": True},
    "gradient_accumulation_steps": 4,
    "train_micro_batch_size_per_gpu": 2,
}
_ACCELERATE: tuple[dict[str, Any], ...] = (
    {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {
            "zero_stage": 3,
            "offload_optimizer_device": "cpu",
            "offload_param_device": "none",
            "zero3_save_16bit_model": True,
            "zero3_init_flag": True,
        },
        "mixed_precision": "bf16",
        "num_machines": 1,
        "num_processes": 8,
    },
    {
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {"deepspeed_config_file": "config2.json"},
        "num_processes": 8,
    },
    {
        "distributed_type": "FSDP",
        "fsdp_config": {
            "fsdp_sharding_strategy": "FULL_SHARD",
            "fsdp_offload_params": True,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
            "fsdp_cpu_ram_efficient_loading": True,
            "fsdp_activation_checkpointing": True,
            "fsdp_reshard_after_forward": 1,
        },
        "mixed_precision": "fp16",
        "num_processes": 4,
    },
)
_TRAINING: tuple[dict[str, Any], ...] = (
    {
        "output_dir": "out",
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "gradient_checkpointing": True,
        "bf16": True,
        "optim": "adamw_torch",
        "max_length": 2048,
        "deepspeed": _DEEPSPEED,
    },
    {"output_dir": "out", "bf16": True, "deepspeed": "config2.json"},
    {
        "output_dir": "out",
        "fp16": True,
        "optim": "adafactor",
        "fsdp": "full_shard auto_wrap offload",
        "fsdp_config": {"state_dict_type": "FULL_STATE_DICT", "activation_checkpointing": True},
    },
)
_LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "head_dim": 128,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
_EXPERTS: dict[str, Any] = {
    "num_local_experts": 8,
    "num_experts": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [0],
    "interleave_moe_layer_step": 2,
    "moe_layers": [1, 3],
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "layer_types": ["full_attention", "sliding_attention"] * 16,
}
_VISION: dict[str, Any] = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "embed_dim": 1280,
    "depth": 32,
    "mlp_ratio": 4,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "image_size": 384,
    "patch_size": 14,
    "num_channels": 3,
    "in_channels": 3,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 4096,
    "num_position_embeddings": 2304,
    "deepstack_visual_indexes": [8, 16, 24],
    "vision_use_head": True,
}
_OTHERS: dict[str, Any] = {
    "d_model": 1024,
    "d_ff": 4096,
    "d_kv": 64,
    "num_layers": 24,
    "num_decoder_layers": 24,
    "num_heads": 16,
    "feed_forward_proj": "gated-gelu",
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "relative_attention_num_buckets": 32,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "num_mel_bins": 80,
    "word_embed_proj_dim": 512,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
}
_DECODERS = (
    *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma2"),
    *("gemma3_text", "phi", "phi3", "gpt2", "opt", "bloom", "falcon", "gpt_neox", "gptj", "olmo"),
    *("deepseek_v2", "deepseek_v3", "gpt_oss", "llama4_text", "glm4", "cohere", "starcoder2"),
    *("granite", "dbrx", "minicpm", "stablelm", "mpt", "nobody_knows"),
)
_SEEING = ("llava", "paligemma", "gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl_chat")
_OTHER_TYPES = ("t5", "mt5", "bart", "mbart", "whisper", "pegasus", "m2m_100", "umt5")
_INDEX: dict[str, Any] = {
    "metadata": {"total_size": 16060522496, "total_parameters": 8030261248},
    "weight_map": {
        f"model.layers.{n}.mlp.up_proj.weight": "model-00001-of-00004.safetensors" for n in range(4)
    },
}


def _format(random: Random) -> list[str]:
    options = ["--format", random.choice(_FORMATS)]
    return options + (["-v"] if random.random() < 0.3 else [])


def _write(folder: Path, name: str, text: str) -> Path:
    """Write a text; the half of a character, which UTF-8 has no form of, as its bytes."""
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def make_configs(random: Random, folder: Path) -> list[str]:
    """DeepSpeed, accelerate, FSDP and TrainingArguments for ``plan --config``."""
    _write(folder, "config2.json", write_json(change_tree(_DEEPSPEED, random, 1)))
    kind = random.randrange(3)
    seed = (_DEEPSPEED, random.choice(_ACCELERATE), random.choice(_TRAINING))[kind]
    tree = change_tree(seed, random)
    if kind == 1 and isinstance(tree, dict):
        path = _write(folder, "config.yaml", write_yaml(tree))
    else:
        path = _write(folder, "config.json", write_json(tree))
    extra = random.choice(((), ("--sweep",), ("--compare-estimators",)))
    return ["plan", "--params", "7B", "--config", str(path), *_PLAN, *extra, *_format(random)]


def make_models(random: Random, folder: Path) -> list[str]:
    """Configurations of models and indexes of checkpoints for ``plan --model``."""
    kind = random.randrange(5)
    name = "config.json"
    if kind == 0:
        name, seed = "model.safetensors.index.json", _INDEX
    elif kind == 1:
        seed = {**_LLAMA, **_OTHERS, "model_type": random.choice(_OTHER_TYPES)}
    elif kind == 2:
        text = {**_LLAMA, "model_type": random.choice(_DECODERS)}
        seed = {"model_type": random.choice(_SEEING), "vision_config": _VISION}
        seed |= {"text_config": text} if random.random() < 0.6 else text
        seed["model_type"] = random.choice(_SEEING)
    elif kind == 3:
        seed = {**_LLAMA, **_EXPERTS, "model_type": random.choice(_DECODERS)}
    else:
        seed = {**_LLAMA, **_OTHERS, "model_type": random.choice(_DECODERS)}
    path = _write(folder, name, write_json(change_tree(seed, random)))
    extra = random.choice(((), ("--sweep",), ("--lora", "rank=16"), ("--strategy", "zero3")))
    return ["plan", "--model", str(path), *_PLAN, *extra, *_format(random)]


@cache
def _documents() -> tuple[dict[str, Any], ...]:
    paths = sorted((_TESTS / "machines").glob("*.json"))
    return tuple(json.loads(path.read_text(encoding="utf-8")) for path in paths)


@cache
def _reports() -> tuple[str, ...]:
    folders = (_TESTS / "samples" / "reports", _TESTS / "samples" / "nvidia_smi")
    paths = sorted(path for folder in folders for path in folder.iterdir())
    shown = "Name: torch\nVersion: 2.7.1+cu128\nRequires: nvidia-nccl-cu12, triton\n---\n"
    return (shown, *(decode_text(path.read_bytes()) for path in paths))


@cache
def _logs() -> tuple[str, ...]:
    paths = sorted((_TESTS / "crashes").rglob("*.txt"))
    return tuple(path.read_text(encoding="utf-8", errors="replace") for path in paths)


def _described(random: Random, path: Path, log: Path) -> list[str]:
    """A command that reads the description of a machine or environment."""
    name, pins = str(path), ("torch==2.7.1+cu128", "deepspeed==0.17.2")
    commands: tuple[Sequence[str], ...] = (
        ("check", "--from", name),
        ("check", "--from", name),
        ("check", "--machine", name, *pins),
        ("check", "--from", name, *_STATED),
        ("diagnose", str(log), "--from", name),
        ("diagnose", name, "--machine", name),
        ("matrix", "show", random.choice(("torch", "drivers", "gpus")), "--machine", name),
        ("plan", "--params", "7B", "--machine", name, "--gpus", "1"),
    )
    command = list(random.choice(commands))
    if command[0] == "matrix":
        return [*command, "--format", random.choice(_FORMATS[:2])]
    return [*command, *_format(random)]


def make_facts(random: Random, folder: Path) -> list[str]:
    """Facts documents."""
    tree = change_tree(random.choice(_documents()), random)
    log = _write(folder, "run.log", random.choice(_logs()))
    return _described(random, _write(folder, "facts.json", write_json(tree)), log)


def make_reports(random: Random, folder: Path) -> list[str]:
    """Reports of collect_env, nvidia-smi, pip, conda and DeepSpeed."""
    text = change_text(random.choice(_reports()), _reports(), random)
    log = _write(folder, "run.log", random.choice(_logs()))
    return _described(random, _write(folder, "report.txt", text), log)


def make_logs(random: Random, folder: Path) -> list[str]:
    """Logs with exit codes and phases for ``diagnose``."""
    path = _write(folder, "run.log", change_text(random.choice(_logs()), _logs(), random, 12))
    command = ["diagnose", str(path), *_format(random)]
    if random.random() < 0.5:
        codes = ("-9", "137", "139", "1", "0", "247", "3221225477", "-1073741819", "9" * 30, "-0")
        command += ["--exit-code", random.choice(codes)]
    if random.random() < 0.3:
        command += ["--phase", random.choice(_PHASES)]
    if random.random() < 0.3:
        text = change_text(random.choice(_reports()), _reports(), random)
        command += ["--from", str(_write(folder, "report.txt", text))]
    return command


@cache
def _locks() -> tuple[Path, ...]:
    return tuple(sorted(p for p in (_TESTS / "samples" / "locks").rglob("*") if p.is_file()))


@cache
def _lock_tree(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def make_locks(random: Random, folder: Path) -> list[str]:
    """Lock files and requirements files for ``check`` and ``diagnose``."""
    path = random.choice(_locks())
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".txt":
        requirements = tuple(p.read_text(encoding="utf-8") for p in _locks() if p.suffix == ".txt")
        text = change_text(text, requirements, random)
    elif random.random() < 0.2:
        text = change_text(text, (text,), random)
    else:
        text = write_toml(change_tree(_lock_tree(path), random, 5))
    lock = str(_write(folder, path.name, text))
    python = random.choice(((), ("--python-version", "3.12")))
    if random.random() < 0.2:
        log = str(_write(folder, "run.log", random.choice(_logs())))
        return ["diagnose", log, lock, *_STATED, *python, *_format(random)]
    return ["check", lock, *_STATED, *python, *_format(random)]


@cache
def _record() -> Mapping[str, str]:
    """The files of a record of a real run."""
    import tempfile

    code = "import sys; print('CUDA out of memory'); sys.exit(3)"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "envguard", "run", "-q", "--no-probe", "--record", folder]
        command += ["--", sys.executable, "-c", code]
        environ = {**os.environ, "PYTHONPATH": str(_ROOT)}
        subprocess.run(command, check=False, capture_output=True, env=environ, cwd=folder)
        (run,) = Path(folder).iterdir()
        return {path.name: decode_text(path.read_bytes()) for path in run.iterdir()}


def make_records(random: Random, folder: Path) -> list[str]:
    """Records of ``run`` for ``diagnose`` and ``plan --from-run``."""
    run = folder / "20260101-000000-1"
    run.mkdir()
    files = dict(_record())
    # the machine of a case stands in for the one that this runs on
    document = json.loads(files["run.json"]) | {"facts": random.choice(_documents())}
    trees: dict[str, Any] = {"run.json": document, "end.json": json.loads(files["end.json"])}
    chosen = random.choice(("run.json", "end.json", "lines"))
    for name, tree in trees.items():
        files[name] = write_json(change_tree(tree, random) if chosen == name else tree)
    for name in files:
        if "jsonl" in name and chosen == "lines":
            files[name] = _changed_lines(files[name], random)
    for name, text in files.items():
        _write(run, name, text)
    if random.random() < 0.3:
        return ["plan", "--params", "7B", *_PLAN, "--from-run", str(run), *_format(random)]
    return ["diagnose", str(run), *_format(random)]


def _changed_lines(text: str, random: Random) -> str:
    lines = [json.loads(line) for line in text.splitlines()]
    lines.append({"t": 1.0, "phase": "save", "from": "log"})
    lines.append({"t": 2.0, "gpus": [[0, 1024, 2048], ["GPU-1", 10, 20]]})
    return "".join(f"{write_json(change_tree(line, random, 2))}\n" for line in lines)


def _fatbin() -> bytes:
    """Two entries of machine code and one of PTX."""
    entries = b"".join(
        struct.pack("<HHIQIIHHIIIQ", kind, 0x101, 64, 32, 0, 0, 8, 1, target, 0, 0, 0x11)
        + bytes(48)
        for kind, target in ((2, 80), (2, 90), (1, 90))
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


@cache
def _libraries() -> tuple[bytes, ...]:
    """Shared objects of the running interpreter, small ones."""
    folders = [Path(entry) for entry in sys.path if entry.endswith("lib-dynload")]
    paths = sorted(path for folder in folders for path in folder.glob("*.so"))
    small = [path.read_bytes() for path in paths if path.stat().st_size < 200_000]
    return tuple(small[:12])


def _wheel(random: Random, library: bytes) -> bytes:
    metadata = "Metadata-Version: 2.4\nName: torch\nVersion: 2.11.0\nRequires-Python: >=3.10\n"
    metadata += "Requires-Dist: nvidia-cublas-cu12==12.8.4.1; platform_system == 'Linux'\n"
    tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_28_x86_64\n"
    version = "__version__ = '2.11.0+cu128'\ncuda: Optional[str] = '12.8'\n"
    texts = [change_text(text, (metadata, tags, version), random) for text in
             (metadata, tags, version)]  # fmt: skip
    info = "torch-2.11.0.dist-info"
    names = (f"{info}/METADATA", f"{info}/WHEEL", "torch/version.py")
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z:
        z.writestr("torch/lib/libtorch_cuda.so", library)
        z.writestr("torch/_C.fatbin", change_bytes(_fatbin(), random))
        for name, text in zip(names, texts, strict=True):
            z.writestr(name, text.encode("utf-8", "replace"))
    return raw.getvalue()


def make_binaries(random: Random, folder: Path) -> list[str]:
    """Shared objects, fatbins and wheels for ``inspect`` and, wheels, for ``check``."""
    library = change_bytes(random.choice((*_libraries(), _fatbin())), random)
    name = random.choice(("x.so", "x.fatbin", "x.cubin", "x.o"))
    kind = random.randrange(3)
    if kind:
        name = "torch-2.11.0+cu128-cp311-cp311-manylinux_2_28_x86_64.whl"
        library = _wheel(random, library)
        library = change_bytes(library, random, 3) if kind == 2 else library
    path = folder / name
    path.write_bytes(library)
    if kind and random.random() < 0.4:
        return ["check", str(path), *_STATED, "--python-version", "3.11", *_format(random)]
    options = random.choice(((), ("-v",), ("-q",), ("--format", "json")))
    return ["inspect", str(path), *options, "--offline"]


@cache
def _parameters() -> Mapping[str, tuple[tuple[str, bool], ...]]:
    """Option and whether it takes a value, of each command that only reads."""
    from envguard.cli.main import COMMANDS, _built

    left_out = (
        "--output",
        "-o",
        "--matrix",
        "--help",
        "--here",
        "--python",
        "--plot",
        "--packages",
    )
    commands = _built(list(COMMANDS)).commands
    return {
        name: tuple(
            (option, not parameter.is_flag)
            for parameter in commands[name].params
            for option in getattr(parameter, "opts", ())
            if option.startswith("-") and option not in left_out
        )
        for name in ("check", "diagnose", "plan", "inspect", "explain")
    }


_USUAL: Mapping[str, tuple[str, ...]] = {
    "--gpu": ("Tesla V100", "H100", "RTX 5090", "A100 80GB, H100", "2x A100", "8", "GB200"),
    "--driver": ("535.104.05", "580.65", "331.20", "999", "535"),
    "--cuda-driver": ("12.2", "13.0", "8.0", "12"),
    "--compute-capability": ("9.0", "7.0", "12.0", "12.1a", "3.5"),
    "--platform": ("linux-x86_64", "linux-aarch64", "windows-x86_64", "macos-aarch64"),
    "--python-version": ("3.12", "3.8", "2.7", "3.13t", "3.14.0rc1"),
    "--ram": ("256G", "1T", "256", "0", "1e3G", "0.5GiB"),
    "--glibc": ("2.31", "2.17", "3"),
    "--nvcc": ("12.4", "13.0"),
    "--params": ("7B", "7.6B", "405b", "1", "1e9", "0.0001B"),
    "--lora": ("rank=16", "rank=8,targets=qv", "rank=0", "rank=16,targets=all-linear,x=1"),
    "--strategy": ("ddp", "zero1", "zero2", "zero3", "fsdp-full", "fsdp-hybrid"),
    "--offload": ("none", "optimizer", "param,optimizer", "param"),
    "--gpus": ("1", "8", "1000000"),
    "--nodes": ("1", "2", "8"),
    "--gpu-memory": ("80", "80G", "24GiB", "0.001"),
    "--host-memory": ("512", "512G"),
    "--format": _FORMATS,
    "--exit-code": ("-9", "137", "247", "1", "99999999999"),
}
_USUAL_SUBJECT = (
    *("torch==2.7.1+cu128", "torch", "torch==2.11.0", "deepspeed==0.17.2", "flash-attn==2.8.3"),
    *("torch>=2.4", "torch @ https://x.example/torch-2.7.1-cp311-cp311-linux_x86_64.whl"),
    *("torchvision==0.22.1", "torch==2.*", "torch===2.7.1", "torch[x]==2.7.1; python_version>'3'"),
    *("GPU001", "DRV002", "host-oom-at-save", "x.whl", "nowhere.txt", "xformers"),
)


def _words(random: Random, usual: Sequence[str]) -> str:
    """A value as a command line can hold it."""
    word = random.choice(usual) if usual and random.random() < 0.6 else random.choice(WORDS)
    if random.random() < 0.2 and usual:
        word = change_text(random.choice(usual), tuple(usual), random, 2).strip("\n")
    return word.replace("\0", "").replace("\ud800", "\udc80")


def make_options(random: Random, folder: Path) -> list[str]:
    """Stated options and pins of the commands that only read."""
    log = str(_write(folder, "run.log", random.choice(_logs())))
    name = random.choice(("check", "check", "check", "diagnose", "plan", "plan", "explain"))
    command = [name]
    if name == "plan":
        command += ["--params", _words(random, _USUAL["--params"]), *_PLAN]
    elif name == "diagnose":
        command.append(log)
    else:
        command += [_words(random, _USUAL_SUBJECT) for _ in range(random.randint(1, 2))]
    if name in {"check", "diagnose"}:
        command += _STATED[:2]  # the machine that this runs on is not asked
    choices = [item for item in _parameters()[name] if item[0] != "--format" or name != "explain"]
    for option, takes_value in random.choices(choices, k=random.randint(1, 6)):
        command.append(option)
        command += [_words(random, _USUAL.get(option, ()))] if takes_value else []
    return command


def make_tables(random: Random, folder: Path) -> list[str]:
    """Tables of a folder that ``--matrix`` names."""
    tables = folder / "tables"
    paths = sorted(_TABLES.rglob("*.toml"))
    chosen = random.choice(paths)
    for path in sorted(_TABLES.rglob("*")):
        place = tables / path.relative_to(_TABLES)
        if path.is_dir() or path == chosen or path.suffix != ".toml":
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path)
    place = tables / chosen.relative_to(_TABLES)
    place.parent.mkdir(parents=True, exist_ok=True)
    tree = _lock_tree(chosen)
    _write(tables, str(chosen.relative_to(_TABLES)), write_toml(change_tree(tree, random, 2)))
    log = str(_write(folder, "run.log", random.choice(_logs())))
    commands: tuple[Sequence[str], ...] = (
        ("check", "torch==2.7.1+cu128", "deepspeed==0.17.2", "xformers==0.0.31", *_STATED),
        ("diagnose", log, *_STATED),
        ("plan", "--params", "7B", *_PLAN),
        ("matrix", "show", random.choice(("torch", "gpus", "packages", "breaks", "drivers"))),
    )
    return [*random.choice(commands), "--matrix", str(tables)]


_TABLE_NAMES = ("torch", "drivers", "gpus", "deepspeed", "packages", "breaks", "toolkits")
_SYSTEMS = ("linux", "windows", "macos", "win", "darwin", "freebsd")
_PROCESSORS = ("x86_64", "aarch64", "arm64", "ppc64le", "i686", "amd64")


def make_shows(random: Random, folder: Path) -> list[str]:
    """Arguments of ``matrix show``: every table with every platform."""
    command = ["matrix", "show", random.choice(_TABLE_NAMES)]
    names = ("2.7.1", "2.11.0", "H100", "V100", "R550", "580", "deepspeed", "flash-attn", "12.4")
    if random.random() < 0.5:
        command.append(_words(random, names))
    if random.random() < 0.8:
        platform = f"{random.choice(_SYSTEMS)}-{random.choice(_PROCESSORS)}"
        command += ["--platform", platform if random.random() < 0.9 else _words(random, ())]
    for option in ("--gpu", "--driver", "--cuda-driver", "--python-version", "--glibc", "--nvcc"):
        if random.random() < 0.25:
            command += [option, _words(random, _USUAL[option])]
    if random.random() < 0.2:
        path = _write(folder, "report.txt", random.choice(_reports()))
        command += ["--machine", str(path)]
    return [*command, "--format", random.choice(_FORMATS[:2]), *random.choice(((), ("-v",)))]


_DEFAULTS: dict[str, Any] = {
    "gpu": ["Tesla V100"],
    "driver": "535.104.05",
    "platform": "linux-x86_64",
    "ram": "256G",
    "format": "json",
    "fail-on": "warn",
    "verbose": True,
    "torch-index": "https://mirror.example/{backend}",
    "check": {"deep": False, "require-gpu": True},
    "plan": {"gpus": 8, "params": "7B", "gpu-memory": "80", "strategy": "zero3", "machine": "x"},
    "smoke": {"timeout": 10.5},
}


def make_defaults(random: Random, folder: Path) -> list[str]:
    """``[tool.envguard]`` of a pyproject.toml."""
    tool = {"envguard": change_tree(_DEFAULTS, random)}
    tree: Any = {"project": {"name": "x"}, "tool": tool}
    if random.random() < 0.2:
        tree = change_tree(tree, random)
    _write(folder, "pyproject.toml", write_toml(tree))
    commands = (
        ["check", "torch==2.7.1+cu128", "--gpu", "H100"],
        ["plan", "--params", "7B", *_PLAN],
        ["matrix", "show", "torch", "--gpu", "H100"],
        ["explain", "GPU001"],
    )
    return list(random.choice(commands))


FAMILIES: Mapping[str, Callable[[Random, Path], list[str]]] = {
    "configs": make_configs,
    "models": make_models,
    "facts": make_facts,
    "reports": make_reports,
    "locks": make_locks,
    "logs": make_logs,
    "records": make_records,
    "binaries": make_binaries,
    "options": make_options,
    "tables": make_tables,
    "shows": make_shows,
    "defaults": make_defaults,
}
