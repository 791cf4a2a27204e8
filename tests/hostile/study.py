"""A study file that uses nearly everything, from which hostile ones are made."""

STUDY = """
study: trial
about: what a study file may say
models:
  base: minilm
  seeds: {load: [minilm, minilm]}
  deep: {load: minilm, read: {final_norm: pre, sink: keep}, device_map: {"": cpu}, reference: base}
  tuned: {finetune: {of: base, task: opinions/opinion, recipe: {like: mosbach2020_cola, epochs: 1}, keep: [0, 1]}, runs: 2}
  steps: {finetune: {of: base, task: opinions/opinion, recipe: {save_steps: 5, lora: {r: 4}}}, steps: [5, 10]}
  twin: {random_twin_of: base}
  bare: {adapter_off: deep}
corpora:
  treebank: treebank
  opinions: {name: opinions, dev: 0.1, sample: {train: 20}, seed: 3}
  own: {files: {train: a.tsv, test: [b.tsv]}, format: tsv, options: {sentence: s, label: l, numeric: true}, sample: 5}
  made: {name: treebank, derive: {bigram_shift: {minimum: 2}}}
analyses:
  - layer_probe: {tasks: [treebank/upos, treebank/xpos], seeds: 2, models: [base, tuned]}
  - similarity: {tasks: treebank/upos}
  - sentence_probe: {tasks: [made/bigram_shift]}
compute: {threads: 1, model_threads: 2, device: cpu, dtype: float32, on_overflow: truncate, on_vanished: zero}
compare: {resamples: 99, confidence: 0.95, margins: {accuracy: 0.01}, alpha: 0.05, seed: 0}
limit: 10
"""
