# Runs in an interpreter with torch, transformers and deepspeed; imports nothing of envguard.
"""One rank of a training job on the CPU that writes its own memory peaks by phase, as JSON."""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import threading
import time
import types
from importlib import import_module as load
from pathlib import Path
from typing import Any, Callable, Dict


def anonymous_bytes() -> int:
    """Anonymous and shared memory of this process; file pages are reclaimable and left out."""
    total = 0
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("RssAnon:", "RssShmem:")):
            total += int(line.split()[1]) * 1024
    return total


class Recorder:
    """Samples memory in a thread; ``phases`` holds where each began, peaked and ended."""

    def __init__(self) -> None:
        self.phases: Dict[str, Dict[str, int]] = {}
        self.peak = 0
        self.is_running = True
        self.lock = threading.Lock()
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while self.is_running:
            with self.lock:
                self.peak = max(self.peak, anonymous_bytes())
            time.sleep(0.002)

    def measure(self, name: str, work: Callable[[], Any]) -> Any:
        """Do some work and record what it needed."""
        gc.collect()
        with self.lock:
            start = self.peak = anonymous_bytes()
        result = work()
        peak = max(self.peak, anonymous_bytes())
        gc.collect()
        self.phases[name] = {"start": start, "peak": peak, "end": anonymous_bytes()}
        return result


TINY = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 32,
}


def make_model(shape: Dict[str, int]) -> Any:
    """A Llama of random 16-bit weights."""
    torch, transformers = load("torch"), load("transformers")
    config = transformers.LlamaConfig(**shape, tie_word_embeddings=False, use_cache=False)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    finally:
        torch.set_default_dtype(torch.float32)


def adapted(model: Any, options: argparse.Namespace) -> Any:
    """A model with adapters on all linear layers where they are asked for."""
    if not options.lora:
        return model
    peft = load("peft")
    config = peft.LoraConfig(
        r=options.lora, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM"
    )
    # DeepSpeed and FSDP make them 16-bit themselves; one process trains them in fp32
    return peft.get_peft_model(model, config, autocast_adapter_dtype=options.strategy == "ddp")


def warm_up(options: argparse.Namespace) -> None:
    """What costs memory once: imports, the process group, a model of nothing."""
    torch = load("torch")
    load("torch._dynamo")  # deepspeed's zero.Init patches torch.Tensor, which this import refuses
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(torch.ones(8))
    tokens = torch.zeros(1, 8, dtype=torch.long)
    adapted(make_model(TINY), options)(input_ids=tokens, labels=tokens).loss.backward()


def two_steps(options: argparse.Namespace, step: Callable[[Any], None]) -> None:
    """Two training steps, so that optimizer states are there in the second."""
    torch = load("torch")
    for _ in range(2):
        size = (options.micro_batch, options.seq_len)
        step(torch.randint(0, options.shape["vocab_size"], size))


def deepspeed_config(options: argparse.Namespace) -> Dict[str, Any]:
    """The configuration that memory_cpu.py plans."""
    return {
        "train_micro_batch_size_per_gpu": options.micro_batch,
        "gradient_accumulation_steps": 1,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "zero_optimization": {
            "stage": int(options.strategy[len("zero") :]),
            "reduce_bucket_size": options.bucket,
            "allgather_bucket_size": options.bucket,
            "stage3_prefetch_bucket_size": options.bucket,
            "stage3_max_live_parameters": options.live,
            "stage3_max_reuse_distance": options.live,
            "stage3_param_persistence_threshold": 10000,
            "stage3_gather_16bit_weights_on_model_save": True,
            "overlap_comm": False,
        },
        "steps_per_print": 10**9,
    }


def run_deepspeed(options: argparse.Namespace, recorder: Recorder) -> None:
    """Load, set up, train, save and resume with DeepSpeed."""
    deepspeed = load("deepspeed")
    config = deepspeed_config(options)
    deepspeed.init_distributed("gloo")

    def build(shape: Dict[str, int]) -> Any:
        if options.strategy != "zero3":
            return adapted(make_model(shape), options)
        with deepspeed.zero.Init(config_dict_or_path=config):
            return adapted(make_model(shape), options)

    def start(model: Any) -> Any:
        parameters = [p for p in model.parameters() if p.requires_grad]
        return deepspeed.initialize(model=model, model_parameters=parameters, config=config)[0]

    def step(tokens: Any) -> None:
        engine.backward(engine(input_ids=tokens, labels=tokens).loss)
        engine.step()

    recorder.measure("warm-up", lambda: warm_up(options))
    model = recorder.measure("load", lambda: build(options.shape))
    engine = recorder.measure("init", lambda: start(model))
    recorder.measure("step", lambda: two_steps(options, step))
    save_deepspeed(options, recorder, engine)


def save_deepspeed(options: argparse.Namespace, recorder: Recorder, engine: Any) -> None:
    """The weights as transformers' Trainer takes them, DeepSpeed's own checkpoint, a resume."""
    torch, utils = load("torch"), load("deepspeed.checkpoint.utils")
    folder = Path(options.folder)

    def trainer() -> None:
        if options.strategy == "zero3":
            state = engine._zero3_consolidated_16bit_state_dict(
                exclude_frozen_parameters=bool(options.lora)
            )
        else:
            state = utils.clone_tensors_for_torch_save(engine.module.state_dict())
        if options.rank == 0 and options.lora:
            engine.module.save_pretrained(folder / "adapter", state_dict=state)
        elif options.rank == 0:
            torch.save(state, folder / "weights.bin")

    def sharded() -> None:
        engine.save_checkpoint(str(folder), tag="one", exclude_frozen_parameters=bool(options.lora))

    def resume() -> None:
        engine.load_checkpoint(str(folder), tag="one", load_module_strict=not options.lora)

    recorder.measure("save-trainer", trainer)
    recorder.measure("save-sharded", sharded)
    recorder.measure("resume", resume)


def prepare_fsdp(model: Any, options: argparse.Namespace) -> Any:
    """Shard a model as accelerate does under mixed precision, but on the CPU."""
    torch, accelerate = load("torch"), load("accelerate")
    accelerate.PartialState(cpu=True)
    plugin = accelerate.FullyShardedDataParallelPlugin(
        fsdp_version=2,
        reshard_after_forward=options.strategy == "fsdp-full",
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
        state_dict_type="FULL_STATE_DICT",
    )
    plugin.set_mixed_precision("bf16")
    # accelerate itself turns FSDP off on a CPU; this is all that the function reads of it
    accelerator = types.SimpleNamespace(
        state=types.SimpleNamespace(fsdp_plugin=plugin),
        mixed_precision="bf16",
        is_main_process=options.rank == 0,
        torch_device_mesh=None,
        device=torch.device("cpu"),
    )
    return load("accelerate.utils.fsdp_utils").fsdp2_prepare_model(accelerator, model)


def run_fsdp(options: argparse.Namespace, recorder: Recorder) -> None:
    """Load, shard, train, save and resume with FSDP2."""
    torch = load("torch")
    torch.distributed.init_process_group("gloo")
    load("torch.distributed.checkpoint")

    def step(tokens: Any) -> None:
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    recorder.measure("warm-up", lambda: warm_up(options))
    whole = recorder.measure("load", lambda: adapted(make_model(options.shape), options))
    model = recorder.measure("init", lambda: prepare_fsdp(whole, options))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    recorder.measure("step", lambda: two_steps(options, step))
    save_fsdp(options, recorder, model, optimizer)


def save_fsdp(options: argparse.Namespace, recorder: Recorder, model: Any, optimizer: Any) -> None:
    """Full state dicts on rank 0, sharded ones, a resume from them, and an asynchronous save."""
    dcp = load("torch.distributed.checkpoint")
    states = load("torch.distributed.checkpoint.state_dict")
    full = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    folder = str(Path(options.folder) / "dcp")

    def whole() -> Dict[str, Any]:
        weights, optim = states.get_state_dict(model, optimizer)
        return {"model": weights, "optimizer": optim}

    def trainer() -> None:
        weights = states.get_model_state_dict(model, options=full)
        del weights
        optim = states.get_optimizer_state_dict(model, optimizer, options=full)
        del optim

    def resume() -> None:
        state = whole()
        dcp.load(state, checkpoint_id=folder)
        weights, optim = state["model"], state["optimizer"]
        states.set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=optim)

    recorder.measure("save-trainer", trainer)
    recorder.measure("save-sharded", lambda: dcp.save(whole(), checkpoint_id=folder))
    recorder.measure("resume-sharded", resume)
    recorder.measure(
        "save-dcp-async",
        lambda: dcp.async_save(whole(), checkpoint_id=folder + "2").result(),
    )


def run_single(options: argparse.Namespace, recorder: Recorder) -> None:
    """Load, train, save and resume in one process, as transformers' Trainer does on one GPU."""
    torch = load("torch")
    recorder.measure("warm-up", lambda: warm_up(options))

    def build() -> Any:
        model = make_model(options.shape)
        return adapted(model, options) if options.lora else model.float()

    def step(tokens: Any) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    folder = Path(options.folder)

    def trainer() -> None:
        model.save_pretrained(folder / "weights")
        torch.save(optimizer.state_dict(), folder / "optimizer.pt")

    def resume() -> None:
        state = torch.load(folder / "optimizer.pt", map_location="cpu")
        optimizer.load_state_dict(state)

    model = recorder.measure("load", build)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, foreach=False)
    recorder.measure("step", lambda: two_steps(options, step))
    recorder.measure("save-trainer", trainer)
    recorder.measure("resume", resume)


def run_dpo(options: argparse.Namespace, recorder: Recorder) -> None:
    """Two steps of trl's DPOTrainer with a copy of the model as reference, or with adapters."""
    trl, datasets = load("trl"), load("datasets")
    kinds = trl.DPOTrainer, trl.DPOConfig  # which trl imports when they are first asked for
    recorder.measure("warm-up", lambda: warm_up(options))
    model, reference = make_model(options.shape).float(), None
    if options.lora:
        model = adapted(make_model(options.shape), options)
    else:
        reference = make_model(options.shape).float()
    arguments = kinds[1](
        output_dir=options.folder, per_device_train_batch_size=options.micro_batch, max_steps=2,
        use_cpu=True, bf16=True, gradient_checkpointing=False, report_to=[], save_strategy="no",
        max_length=options.seq_len, optim="adamw_torch", optim_args="foreach=False",
    )  # fmt: skip
    answer = "w7 " * (options.seq_len - 2)
    rows = [{"prompt": "w3 ", "chosen": answer, "rejected": answer.replace("7", "9")}] * 8
    trainer = kinds[0](
        model=model, ref_model=reference, args=arguments, processing_class=tokenizer(),
        train_dataset=datasets.Dataset.from_list(rows),
    )  # fmt: skip
    recorder.measure("step", trainer.train)
    recorder.measure("save-trainer", lambda: trainer.save_model(options.folder + "/weights"))


def tokenizer() -> Any:
    """A tokenizer of a few words, made here: nothing is fetched."""
    tokenizers, transformers = load("tokenizers"), load("transformers")
    pad, end, unknown = "<pad>", "<eos>", "<unk>"
    words = {pad: 0, end: 1, unknown: 2, **{f"w{i}": i for i in range(3, 64)}}
    model = tokenizers.models.WordLevel(words, unk_token=unknown)
    whole = tokenizers.Tokenizer(model)
    whole.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=whole, pad_token=pad, eos_token=end
    )


def parse_arguments() -> argparse.Namespace:
    """What memory_cpu.py states."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", required=True)
    parser.add_argument("--shape", type=json.loads, required=True)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--seq-len", type=int, default=64)
    parser.add_argument("--bucket", type=int, default=5_000_000)
    parser.add_argument("--live", type=int, default=10_000_000)
    parser.add_argument("--lora", type=int, default=0)
    parser.add_argument("--folder", required=True)
    options = parser.parse_args()
    options.rank = int(os.environ.get("RANK", "0"))
    return options


def main() -> None:
    """Run one rank and write its phases beside the others'."""
    options = parse_arguments()
    torch = load("torch")
    torch.set_num_threads(1)
    recorder = Recorder()
    runs = {"ddp": run_single, "dpo": run_dpo, "fsdp": run_fsdp}
    runs.get(options.strategy.split("-")[0], run_deepspeed)(options, recorder)
    recorder.is_running = False
    out = Path(options.folder) / f"rank{options.rank}.json"
    out.write_text(json.dumps(recorder.phases))
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    if options.rank == 0:
        for name in ("one", "dcp", "dcp2"):
            shutil.rmtree(Path(options.folder) / name, ignore_errors=True)
    os._exit(0)  # threads of the process group would hold the interpreter


if __name__ == "__main__":
    main()
