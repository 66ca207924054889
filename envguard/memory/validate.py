"""Refuses jobs whose parts contradict each other."""

from __future__ import annotations

from envguard.errors import InputError
from envguard.memory.job import Job, Place, Precision, SaveMode, Strategy
from envguard.memory.settings import Settings


def check_job(job: Job, settings: Settings) -> None:
    """Refuse contradictions.

    Args:
        job: The job.
        settings: Where its parts were stated, for the message.

    Raises:
        InputError: Two parts cannot hold together; the message names both.
    """
    _check_offload(job, settings)
    _check_precision(job, settings)
    _check_save(job, settings)
    _check_adapters(job)


def is_valid(job: Job) -> bool:
    """Whether the parts of a job hold together."""
    try:
        check_job(job, Settings())
    except InputError:
        return False
    return True


def _name(settings: Settings, setting: str, option: str) -> str:
    return settings.where(setting) or option


def _check_offload(job: Job, settings: Settings) -> None:
    name = _name(settings, "params_on", "--offload")
    strategy = job.strategy.value
    if job.strategy is Strategy.DDP and job.optimizer_on is not Place.GPU:
        raise InputError(f"{name}: {strategy} offloads nothing; choose a zero or fsdp strategy")
    if job.strategy in {Strategy.ZERO1, Strategy.ZERO2} and job.params_on is not Place.GPU:
        raise InputError(f"{name}: parameters are offloaded by zero3, not by {strategy}")
    if job.strategy.is_fsdp:
        if Place.NVME in {job.params_on, job.optimizer_on}:
            raise InputError(f"{name}: {strategy} offloads to the cpu only, not to nvme")
        if job.params_on is not job.optimizer_on:
            raise InputError(
                f"{name}: {strategy} offloads parameters and optimizer together",
                hint="--offload param,optimizer",
            )


def _check_precision(job: Job, settings: Settings) -> None:
    if job.precision is Precision.PURE_BF16 and job.strategy.is_deepspeed:
        name = _name(settings, "precision", "--dtype")
        raise InputError(f"{name}: pure-bf16 contradicts {job.strategy.value}: DeepSpeed keeps "
                         "fp32 masters beside bf16 weights")  # fmt: skip
    if job.optimizer.is_paged and job.optimizer_on is not Place.GPU:
        name = _name(settings, "optimizer", "--optimizer")
        raise InputError(f"{name}: a paged optimizer pages by itself; it is not offloaded too")


def _check_save(job: Job, settings: Settings) -> None:
    name = f"{_name(settings, 'save', '--save')} {job.save.value}"
    if job.save is SaveMode.DCP_ASYNC and job.strategy.is_deepspeed:
        raise InputError(f"{name}: DeepSpeed does not write torch's distributed checkpoints")
    if job.save is SaveMode.SHARDED and job.strategy is Strategy.DDP:
        raise InputError(f"{name}: ddp holds no shards, every GPU has the whole state")


def _check_adapters(job: Job) -> None:
    if job.quantized is not None and job.precision is Precision.FP32:
        raise InputError("--qlora contradicts --dtype fp32: 4-bit weights are computed in 16 bits")
    if job.lora is not None and job.trainable > job.shape.params:
        raise InputError(
            f"--lora: rank {job.lora.rank} gives more adapter parameters than the model has"
        )
