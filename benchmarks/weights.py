"""What comparing the weights of a large pair takes: a model of a billion parameters, made up on disk, and a tuned one.

    python benchmarks/weights.py SCRATCH         # measures, writes benchmarks/results/weights.json and docs/weights.md
    python benchmarks/weights.py --write         # the page again from the kept results

Both are bfloat16 in shards of 1 GB, with the configuration of Llama; 5 GB under SCRATCH, removed in the end. Spectra
fall as those of trained matrices do. Every matrix of the tuned model has changed by noise of 1 % of its size; in every
fourth block the output of attention also has a planted direction that the base lacks. The analysis runs in a process
of its own, on one thread; its memory is the most anonymous resident memory seen (mapped pages of files are the
system's to take back), sampled twenty times a second.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "weights.json", HERE.parent / "docs" / "weights.md"
WIDTH, INNER, BLOCKS, KEYS, VOCABULARY = 2048, 8192, 16, 512, 32_000
SHARD = 10**9
LIMIT_GB, LIMIT_SECONDS = 4.0, 180.0
PLANTED = 4
"""Every so many blocks one has a planted direction."""


def shapes() -> dict[str, tuple[int, ...]]:
    """Of Llama's tensors, by name."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, WIDTH)}
    for block in range(BLOCKS):
        front = f"model.layers.{block}."
        for name, rows in (("q", WIDTH), ("k", KEYS), ("v", KEYS), ("o", WIDTH)):
            found[f"{front}self_attn.{name}_proj.weight"] = (rows, WIDTH)
        found |= {f"{front}mlp.{name}_proj.weight": (INNER, WIDTH) for name in ("gate", "up")}
        found[f"{front}mlp.down_proj.weight"] = (WIDTH, INNER)
        found |= {f"{front}{name}_layernorm.weight": (WIDTH,) for name in ("input", "post_attention")}
    return found | {"model.norm.weight": (WIDTH,)}


def tensors(tuned: bool) -> Iterator[tuple[str, torch.Tensor]]:
    """Of the base, or of the model that was tuned from it."""
    for number, (name, shape) in enumerate(shapes().items()):
        generator = torch.Generator().manual_seed(number)
        made = torch.randn(shape, generator=generator) if len(shape) == 2 else torch.ones(shape)
        if len(shape) == 2:
            made *= 0.02 * (torch.arange(1, shape[1] + 1) / shape[1]) ** -0.3
        if tuned:
            made += 0.01 * made.std() * torch.randn(shape, generator=generator) if len(shape) == 2 else 0.01
            if "o_proj" in name and int(name.split(".")[2]) % PLANTED == 0:
                left, right = (torch.randn(size, generator=generator) for size in shape)
                made += 6 * made.std() * torch.outer(left, right) / shape[0] ** 0.5
        yield name, made.bfloat16()


def write_model(folder: Path, tuned: bool) -> int:
    """A folder with shards and their index; how many numbers it holds."""
    folder.mkdir(parents=True)
    size = {"hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": BLOCKS, "vocab_size": VOCABULARY}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": True}
    said = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps({**said, **size, **heads}))
    shard: dict[str, torch.Tensor] = {}
    where, count, held, total = {}, 1, 0, 0
    for name, tensor in tensors(tuned):
        if held + tensor.nbytes > SHARD:
            save_file(shard, folder / f"model-{count:05}.safetensors")
            shard, held, count = {}, 0, count + 1
        shard[name], where[name] = tensor, f"model-{count:05}.safetensors"
        held, total = held + tensor.nbytes, total + tensor.numel()
    save_file(shard, folder / f"model-{count:05}.safetensors")
    index = {"metadata": {"total_size": 2 * total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def measure(scratch: Path) -> dict[str, Any]:
    """In this process: the study of the pair, its seconds and its most anonymous memory."""
    from vestige.study.run import Study

    torch.set_num_threads(1)
    models = {"base": str(scratch / "base"), "tuned": {"load": str(scratch / "tuned"), "reference": "base"}}
    raw = {"study": "billion", "models": models, "analyses": [{"weights": {}}]}
    peak, done = [0.0], threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    peak[0] = max(peak[0], int(line.split()[1]) * 1024 / 1e9)

    thread = threading.Thread(target=look)
    thread.start()
    wall, cpu = time.perf_counter(), time.process_time()
    run = Study.from_dict(raw, scratch / "run", cache=scratch / "cache").run(name="inline")
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    done.set()
    thread.join()
    rows = run.results[run.results["layer"].isna() & run.results["label"].isna()].set_index("metric")["value"]
    found = {name: float(rows[name]) for name in ("relative_change", "intruders", "changed_tensors")}
    return {**spent, "peak_anonymous_gb": peak[0], "load": os.getloadavg()[0], **found}


def write(found: dict[str, Any]) -> None:
    """The page."""
    rows = [
        ("seconds, wall-clock", f"{found['wall']:.0f}", f"under {LIMIT_SECONDS:.0f}"),
        ("seconds of one core", f"{found['cpu']:.0f}", ""),
        ("anonymous memory, at most", f"{found['peak_anonymous_gb']:.2f} GB", f"under {LIMIT_GB:g} GB"),
    ]
    table = "\n".join(f"| {what} | {figure} | {goal} |" for what, figure, goal in rows)
    planted = len(range(0, BLOCKS, PLANTED))
    PAGE.write_text(
        "# Weights of a large pair\n\nWritten by `python benchmarks/weights.py SCRATCH` from "
        "`benchmarks/results/weights.json`: the whole study, `- weights: {}`, hashes of files and tables among it, of "
        f"two models of {found['parameters'] / 1e9:.2f} billion parameters (Llama's form, {BLOCKS} blocks of {WIDTH}, "
        f"bfloat16, {found['shards']} shards each), in one process with one thread. The machine has {found['cores']} "
        f"cores; its load average at the end was {found['load']:.1f}, so that seconds on the wall may be more than a "
        f"quiet machine takes.\n\n| | measured | goal |\n|---|--:|--:|\n{table}\n\n"
        f"Planted: noise of 1 % everywhere, and one new direction in {planted} matrices. Found: a relative change of "
        f"{100 * found['relative_change']:.2f} %, {found['intruders']:.0f} intruder dimensions.\n"
    )


def main() -> None:
    """Make the pair, measure in a process of its own, keep the results, write the page, remove the pair."""
    if "--write" in sys.argv:
        return write(json.loads(RESULTS.read_text()))
    scratch = Path(sys.argv[1])
    if "--measure" in sys.argv:
        print(json.dumps(measure(scratch)))
        return None
    place = scratch / "weights-benchmark"
    try:
        parameters = write_model(place / "base", tuned=False)
        write_model(place / "tuned", tuned=True)
        shards = len(list((place / "base").glob("*.safetensors")))
        command = [sys.executable, __file__, str(place), "--measure"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        found = {"parameters": parameters, "shards": shards, "cores": os.cpu_count(), **json.loads(said)}
    finally:
        shutil.rmtree(place, ignore_errors=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    write(found)
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
