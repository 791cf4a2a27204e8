"""The command line. Nothing heavy is imported before a command needs it."""

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from vestige.errors import VestigeError
from vestige.version import __version__

app = typer.Typer(
    name="vestige",
    help="What did fine-tuning do to the linguistic knowledge inside this model, and where?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for tables and report (default: runs/NAME-HASH, of all that is asked for)."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace results of another study that the folder may hold.")
]
Device = Annotated[str, typer.Option("--device", help="Where models run: cpu, cuda, mps.")]
Format = Annotated[str | None, typer.Option("--format", help="Of your own file (vestige ls formats).")]
Options = Annotated[
    list[str] | None, typer.Option("--option", help="key=value for its reader, as sentence=text (repeatable).")
]
Cache = Annotated[
    Path | None, typer.Option("--cache", help="Folder for finished work (default: VESTIGE_CACHE or ~/.cache/vestige).")
]
Jobs = Annotated[int, typer.Option("--jobs", min=0, help="Steps at a time (default: one per core, at most 8).")]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", help="Where steps run: inline, local, ray or slurm (default: local, or as the file says)."
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option("--with", help="key=value of the engine, as partition=gpu or disk=20GB (repeatable)."),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Only the first N sentences of every split: a smoke run.")
]


STOPPED = 130
"""What typer ends with after Ctrl-C."""
TERMINATED = 143
"""What a shell reports of a program that SIGTERM ended."""


def _cores() -> int:
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        typer.echo(f"vestige {__version__}")
        raise typer.Exit


@app.command()
def demo(
    model: Annotated[
        str | None, typer.Option("--model", help="Another model: a folder or hub id (default: the embedded MiniLM).")
    ] = None,
    out: Out = None,
    overwrite: Overwrite = False,
    cache: Cache = None,
    jobs: Jobs = 0,
    limit: Limit = None,
    device: Device = "cpu",
    engine: Engine = None,
    settings: With = None,
) -> None:
    """Run a real study on the embedded model and treebank (or a model of your own), and write its report."""
    from vestige.demo import demo_spec
    from vestige.study.run import Study

    study = Study.from_dict(demo_spec(limit, device, model), out, cache=cache, overwrite=overwrite)
    _say(study.run(**_engine(jobs, engine, settings)))


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="A study file (YAML).")],
    out: Out = None,
    overwrite: Overwrite = False,
    cache: Cache = None,
    jobs: Jobs = 0,
    limit: Limit = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Where models run: cpu, cuda, mps (default: as the file says).")
    ] = None,
    engine: Engine = None,
    settings: With = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the steps, what is cached, and what the rest may take.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --plan: as JSON, every step by name.")] = False,
    until: Annotated[
        str | None, typer.Option("--until", help="Stop after steps of a kind: tune, load, extract, analyse.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only steps of a model, corpus or analysis (repeatable).")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Go on in the background; `vestige status` tells how far it is.")
    ] = False,
) -> None:
    """Run a study file; what is finished is not computed again."""
    from vestige.study.run import Study

    changes: dict[str, Any] = {} if limit is None else {"limit": limit}
    asked = Study.from_file(study, out, cache=cache, overwrite=overwrite, device=device, **changes)
    how = _engine(jobs, engine, settings, asked.spec.engine)
    if plan:
        from vestige.study.estimate import plan_lines

        for line in plan_lines(asked, asked.settings(**how), as_json):
            typer.echo(line)
    elif detach:
        from vestige.study.detach import detached

        typer.echo(detached(asked.folder, sys.argv[1:], asked.settings(**how)))
    elif until or only:
        from vestige.study.run import some_steps

        found = some_steps(asked, until, only or (), asked.settings(**how))
        typer.echo(found[0])
        if found[1]:
            raise typer.Exit(1)
    else:
        _say(asked.run(**how))


@app.command()
def compare(
    models: Annotated[
        list[str],
        typer.Argument(help="The base (hub id, folder, or minilm) and tuned models; a tuned one alone names its base."),
    ],
    corpus: Annotated[
        str, typer.Option("--corpus", help="A corpus of the catalog (vestige ls corpora), a file, or a folder.")
    ] = "treebank",
    format: Format = None,
    option: Options = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Labelling to probe (repeatable; default: two that fit).")
    ] = None,
    analysis: Annotated[
        list[str] | None, typer.Option("--analysis", help="vestige ls analyses (repeatable; default: layer_probe).")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", help="A choice of analyses: quick (a minute), standard or full; add to it by --analysis."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", help="Of tuned folders that have none: a folder, or base.")
    ] = None,
    sink: Annotated[
        str, typer.Option("--sink", help="An attention sink on the first word: auto, leave_out, add (a BOS) or keep.")
    ] = "auto",
    unknown: Annotated[
        str, typer.Option("--unknown", help="allow: go on where a tokenizer lacks a fifth of the tokens.")
    ] = "error",
    out: Out = None,
    overwrite: Overwrite = False,
    cache: Cache = None,
    jobs: Jobs = 0,
    limit: Limit = None,
    device: Device = "cpu",
    engine: Engine = None,
    settings: With = None,
) -> None:
    """Compare a base model with tuned ones on a corpus and write the report."""
    from vestige.study.base_of import base_of
    from vestige.study.compare import compare as compare_models
    from vestige.study.key_values import reader_options

    if len(models) == 1:
        found = base_of(models[0])
        typer.echo(f"base: {found.name} ({found.why})")
        models = [found.name, *models]
    done = compare_models(
        models[0],
        models[1:],
        corpus,
        analyses=analysis,
        profile=profile,
        tasks=task,
        format=format,
        options=reader_options(option or ()),
        tokenizer=tokenizer,
        sink=sink,
        on_unknown=unknown,
        limit=limit,
        device=device,
        engine=_engine(jobs, engine, settings),
        folder=out,
        overwrite=overwrite,
        cache=cache,
    )
    _say(done)


@app.command()
def compare_items(
    base: Annotated[Path, typer.Argument(help="lm-eval's samples of the base: a folder of one model, or one file.")],
    tuned: Annotated[Path, typer.Argument(help="Those of the tuned model, on the same tasks.")],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="acc, exact_match ... (repeatable; default: all with numbers).")
    ] = None,
    margin: Annotated[
        float, typer.Option("--margin", min=0, help="Of equivalence, for metrics between 0 and 1.")
    ] = 0.01,
    out: Annotated[Path | None, typer.Option("--out", help="Write the whole table here, as csv.")] = None,
) -> None:
    """Compare two models on the items that lm-evaluation-harness logged with --log_samples."""
    from vestige.comparison.items import compare_items as compare_sides
    from vestige.comparison.items import lines

    table = compare_sides(base, tuned, metrics=metric or (), margin=margin)
    for line in lines(table):
        typer.echo(line)
    if out is not None:
        table.to_csv(out, index=False)


@app.command()
def finetune(
    model: Annotated[str, typer.Argument(help="Hub id, folder, or minilm.")],
    task: Annotated[str, typer.Option("--task", help="A corpus, corpus/task, or a file of your own.")],
    format: Format = None,
    option: Options = None,
    recipe: Annotated[str | None, typer.Option("--recipe", help="vestige ls recipes; default: mosbach2020's.")] = None,
    change: Annotated[list[str] | None, typer.Option("--set", help="key=value of the recipe (repeatable).")] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Independent runs, by seed.")] = 1,
    freeze: Annotated[
        int | None, typer.Option("--freeze", help="Hold the embeddings and so many blocks fixed.")
    ] = None,
    keep: Annotated[str | None, typer.Option("--keep", help="Cut the model to these blocks first: 0,1,2.")] = None,
    lora: Annotated[bool, typer.Option("--lora", help="Train a low-rank adapter instead of the weights.")] = False,
    dev: Annotated[float | None, typer.Option("--dev", help="Share of train to cut off as dev.")] = None,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="Train on so many examples.")] = None,
    device: Device = "cpu",
    threads: Annotated[int, typer.Option("--threads", min=1, help="Of the processor.")] = 2,
    out: Annotated[
        Path | None, typer.Option("--out", help="Copy the models here (default: left in the cache).")
    ] = None,
    cache: Cache = None,
) -> None:
    """Fine-tune a model on a task; a killed run goes on where it was."""
    from vestige.study.tune import tune

    changes = [*(change or ()), *([f"freeze={freeze}"] if freeze is not None else []), *(["lora=true"] if lora else [])]
    kept = None if keep is None else _blocks(keep)
    done = tune(
        model, task, format=format, options=option or (), recipe=recipe, changes=changes, runs=runs, keep=kept, dev=dev,
        sample=sample, device=device, threads=threads, out=out, cache=cache,
    )  # fmt: skip
    for tuned, folder in done:
        typer.echo(f"model: {folder.resolve()}")
        for split, scores in tuned.log["scores"].items():
            for name, measure in scores.items():
                majority = "" if measure["majority"] is None else f", majority {100 * measure['majority']:.1f}"
                inside = f"{100 * measure['low']:.1f} to {100 * measure['high']:.1f}"
                typer.echo(f"  {split} {name} {100 * measure['value']:.1f} ({inside}{majority})")
        for note in tuned.log["notes"]:
            typer.echo(f"  note: {note}")


def _blocks(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise VestigeError(f"blocks are whole numbers, found {text!r}", fix="--keep 0,1,2") from None


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="durrani2020, durrani2021, mosbach2020 or merchant2020.")],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Hub id, folder, or minilm (repeatable; default: minilm, at full the paper's)."),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            "--scale", help="demo (built-in corpora), small (open corpora) or full (the paper's own setting)."
        ),
    ] = "demo",
    source: Annotated[
        Path | None, typer.Option("--from", help="Only write the page again, from the tables of this run or example.")
    ] = None,
    kept: Annotated[
        Path | None, typer.Option("--keep", help="With --from: keep the run's tables and its page in this folder.")
    ] = None,
    out: Out = None,
    overwrite: Overwrite = False,
    cache: Cache = None,
    jobs: Jobs = 0,
    limit: Limit = None,
    device: Annotated[str | None, typer.Option("--device", help="Where models run: cpu, cuda, mps.")] = None,
    engine: Engine = None,
    settings: With = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the steps, what they may take, and the cost on one GPU.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --plan: as JSON.")] = False,
) -> None:
    """Reproduce a paper on your models: its tables, figures and claims, beside its own numbers where they compare."""
    from vestige.papers.paper import studies_of

    names = studies_of(paper)
    if kept is not None and source is None:
        raise VestigeError("--keep takes the tables of a run", fix="name the run as well: --from RUN")
    if source is not None:
        from vestige.papers.reproduce import rewrite

        typer.echo(f"page: {rewrite(paper, source, out, kept).resolve()}")
        return
    how = _engine(jobs, engine, settings)
    asked: dict[str, Any] = {"limit": limit, "device": device, "cache": cache, "overwrite": overwrite}
    if plan:
        from vestige.papers.planning import lines

        for line in lines(names, scale, model or (), out, how, as_json, asked):
            typer.echo(line)
        return
    from vestige.papers.reproduce import study_of, write_page

    failed = 0
    for name in names:
        folder = out if out is None or len(names) == 1 else out / name
        done = study_of(name, scale, model or (), folder, **asked).run(**how)
        typer.echo(f"page: {write_page(name, done, done.tables.folder).resolve()}")
        failed += len(done.failed)
        typer.echo(f"report: {done.report().resolve()}")
    if failed:
        typer.echo(
            f"error: {failed} {'analysis' if failed == 1 else 'analyses'} failed; the reports name them", err=True
        )
        raise typer.Exit(1)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path | None, typer.Option("--out", help="Where to write it.")] = None,
    format: Annotated[str, typer.Option("--format", help="html or markdown.")] = "html",
    title: Annotated[str, typer.Option("--title", help="Title of the markdown page.")] = "",
) -> None:
    """Write the report of a finished run anew."""
    from vestige.study.finished import StudyRun

    done = StudyRun.open(folder)
    if format not in ("html", "markdown"):
        raise VestigeError(f"unknown report format {format!r}", fix="choose html or markdown")
    typer.echo(done.report(out) if format == "html" else done.markdown(out, title))


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    tables: Annotated[
        list[str] | None, typer.Option("--tables", help="csv, latex, markdown or xlsx (repeatable; default: csv).")
    ] = None,
    figures: Annotated[
        list[str] | None, typer.Option("--figures", help="pdf, svg or png (repeatable; default: pdf).")
    ] = None,
    width: Annotated[int, typer.Option("--width", min=100, max=2000, help="Of a figure, in points.")] = 340,
    out: Annotated[Path | None, typer.Option("--out", help="Where to (default: `export` in the run's folder).")] = None,
) -> None:
    """Write every table and figure of a report as a file of its own, for a paper or a slide."""
    from vestige.study.finished import StudyRun

    made = StudyRun.open(folder).export(out, tables=tables or ("csv",), figures=figures or ("pdf",), width=width)
    typer.echo(f"{len(made)} files: {made[0].resolve()}")


@app.command("ls")
def list_things(
    what: Annotated[str, typer.Argument(help="analyses, corpora, formats, derived, recipes or runs.")] = "analyses",
    name: Annotated[str | None, typer.Argument(help="An analysis or a corpus: all that is known of it.")] = None,
    under: Annotated[Path, typer.Option("--under", help="Where to look for runs.")] = Path("runs"),
) -> None:
    """List analyses, corpora, their formats, tasks derived from them, recipes of fine-tuning, or runs."""
    from vestige.listing import lines

    for line in lines(what, name, under):
        typer.echo(line)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, finished or not.")],
    watch: Annotated[bool, typer.Option("--watch", help="Show it until the run ends.")] = False,
) -> None:
    """Tell how far a run is: its steps, what runs where, what failed; from any shell."""
    from vestige.study.status import show

    show(folder, watch, typer.echo)


@app.command()
def cache(
    cache: Cache = None,
    studies: Annotated[bool, typer.Option("--studies", help="By the study that uses it, as far as known.")] = False,
) -> None:
    """Tell what the cache holds: kinds of finished work, how many, how large, when last used."""
    from vestige.study.housekeeping import cache_lines

    for line in cache_lines(cache, studies):
        typer.echo(line)


@app.command()
def verify(cache: Cache = None) -> None:
    """Compare everything in the cache with its checksums; what is damaged is named, and made again when needed."""
    from vestige.study.housekeeping import damaged

    found = 0
    for line in damaged(cache):
        found += 1
        typer.echo(line)
    typer.echo(f"{found} damaged" if found else "nothing is damaged")
    if found:
        raise typer.Exit(1)


@app.command()
def clean(
    cache: Cache = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="representations, models, cells, ... (repeatable; default: all).")
    ] = None,
    days: Annotated[float | None, typer.Option("--older-than", min=0, help="Not used for so many days.")] = None,
    size: Annotated[str | None, typer.Option("--down-to", help="Until the cache is at most so large: 20GB.")] = None,
    sure: Annotated[bool, typer.Option("--yes", help="Remove; without it, what would be removed is listed.")] = False,
) -> None:
    """Remove finished work from the cache, least recently used first; never what a running study uses."""
    from vestige.study.housekeeping import clean as clean_cache

    for line in clean_cache(cache, kind or (), days, size, sure):
        typer.echo(line)


@app.command()
def doctor() -> None:
    """Check this machine: libraries, the embedded model, bfloat16, the cache."""
    from vestige.doctor import checks

    healthy = True
    for check in checks():
        healthy &= check.ok or check.optional
        mark = "ok  " if check.ok else "note" if check.optional else "FAIL"
        typer.echo(f"{mark}  {check.name}: {check.found}")
        if not check.ok and check.fix:
            typer.echo(f"      -> {check.fix}")
    if not healthy:
        raise typer.Exit(1)


def _engine(jobs: int, name: str | None, settings: list[str] | None, given: Any = None) -> dict[str, Any]:
    """What the command line says of the engine; on this machine one step per core, unless a file says otherwise."""
    from vestige.study.key_values import key_values

    said = key_values(settings or (), "a setting of the engine", "partition=gpu")
    where = name or (given.name if given is not None else None) or "local"
    here = where in ("inline", "local") and not (given is not None and given.jobs)
    how = {"name": name, "jobs": jobs or (_cores() if here and where == "local" else None), **said}
    return {key: value for key, value in how.items() if value is not None}


def _say(done: Any) -> None:
    typer.echo(f"report: {done.report().resolve()}")
    typer.echo(f"tables: {done.tables.folder.resolve()}")
    if done.failed:
        count = len(done.failed)
        typer.echo(f"error: {count} {'analysis' if count == 1 else 'analyses'} failed; the report names them", err=True)
        raise typer.Exit(1)


def _terminate(*_: object) -> None:
    """SIGTERM is as Ctrl-C: an engine ends what it has started."""
    raise SystemExit(TERMINATED)


def main() -> None:
    """Entry point: our errors are printed as sentences, all others with a traceback."""
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait sleep: spinning ruins a busy machine
    signal.signal(signal.SIGTERM, _terminate)
    if "--plan" in sys.argv:  # a program of seconds: looking for garbage took a sixth of them
        gc.disable()
    try:
        app()
    except VestigeError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except SystemExit as end:
        if end.code in (STOPPED, TERMINATED):
            typer.echo("stopped; finished work is kept, run the same command to go on", err=True)
        raise


if __name__ == "__main__":
    main()
