"""Settings of engines: in a study file under `engine:`, or as flags. They change where and when, never a number."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from vestige.errors import SpecError
from vestige.finetune.recipe import Count, NotNegative, Whole
from vestige.study.engines.engine import Engine
from vestige.study.record import Record
from vestige.study.steps.step import Memory, Step

Kind = Literal["load", "tune", "extract", "analyse", "compare"]
_UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def _bytes(value: Any) -> Any:
    """20 GB, 500MB or a number of bytes."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([\d.]+)\s*([KMGT]?B?)", value.strip().upper())
    if found is None or found[1].count(".") > 1 or found[1] == ".":
        raise ValueError("a size is written 20 GB or 500 MB")
    unit = found[2] if found[2].endswith("B") or not found[2] else f"{found[2]}B"
    return int(float(found[1]) * _UNITS[unit])


Size = Annotated[Whole, BeforeValidator(_bytes), Field(gt=0)]


class EngineSpec(BaseModel):
    """Where and how many at a time; no part of any name, so that every engine gives the same bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["inline", "local", "ray", "slurm"] | None = None
    """By default `local` where several jobs are asked for, else `inline`."""
    jobs: Count | None = None
    """Steps at a time (`local`); of `slurm`, jobs in the queue at a time."""
    disk: Size | None = None
    """What the hidden states of the study may take on disk: they are dropped when no step needs them any more, and
    made again if one does."""
    address: str | None = None
    """Of a Ray cluster to join; without it, Ray is started on this machine."""
    partition: str | None = None
    """Of SLURM."""
    account: str | None = None
    """Of SLURM: what the jobs are charged to."""
    minutes: Count | dict[Kind, Count] = 60
    """Of a SLURM job, for all or by kind of step: load, tune, extract, analyse, compare."""
    memory: Size | dict[Kind, Size] | None = None
    """Of a step, for all or by kind: `4 GB`. Where nothing is said, `local` goes by an estimate."""
    together: Size | None = None
    """What the steps that run at a time on this machine may take of its memory (`local`); by default 80 % of what is
    free at the start. A step that takes more runs alone."""
    gpus: NotNegative | dict[Kind, NotNegative] | None = None
    """Of a step that runs on one (`--device cuda`), for all or by kind; by default one. Ray takes fractions."""
    pack: Count = 8
    """Steps that share a SLURM job, but for those that are `alone`."""
    alone: tuple[Kind, ...] = ("tune", "extract")
    """Kinds of steps that get a SLURM job of their own."""

    @property
    def runs_here(self) -> bool:
        """Whether steps run on this machine, by this process or its workers."""
        return self.name in (None, "inline", "local")

    def of(self, setting: str, step: Step) -> Any:
        """A setting for a step; nothing is the value of a kind that is not named."""
        value = getattr(self, setting)
        default = type(self).model_fields[setting].default
        return value.get(step.kind, default) if isinstance(value, dict) else value

    def gpus_of(self, step: Step) -> float:
        """How many GPUs a step gets: none if it runs on the processor."""
        asked = self.of("gpus", step)
        return 0 if step.device == "cpu" else 1 if asked is None else asked


def make_engine(settings: EngineSpec, record: Record, memory: Memory, needs: Mapping[str, int] | None = None) -> Engine:
    """The engine that is asked for; `needs`: by key, the memory that steps take by estimate."""
    name = settings.name or ("local" if (settings.jobs or 1) > 1 else "inline")
    if name == "inline":
        from vestige.study.engines.inline import Inline

        return Inline(memory)
    if name == "local":
        from vestige.study.engines.local import Local

        estimated = needs or {}
        return Local(
            settings.jobs or 1,
            record.folder,
            memory=settings.together,
            needs=lambda step: settings.of("memory", step) or estimated.get(step.key, 0),
        )
    try:
        if name == "ray":
            from vestige.study.engines.ray import RayEngine

            return RayEngine(settings, record.folder)
        from vestige.study.engines.slurm import Slurm

        return Slurm(settings, record.folder)
    except ImportError as error:
        raise SpecError(
            f"the engine {name!r} needs {error.name}, which is not installed", fix=f"pip install {error.name}"
        ) from error
