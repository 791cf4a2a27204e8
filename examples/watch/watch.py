"""Probe a model for part of speech while transformers' Trainer tunes it: `python examples/watch/watch.py`."""

from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

import vestige as vg
from vestige.models.files.sources import minilm_folder

folder = minilm_folder()
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
opinions = vg.load_corpus("opinions").task("opinion")
labels = {label: number for number, label in enumerate(sorted(opinions.label_counts))}
train = [
    {**tokenizer(" ".join(sentence.words)), "labels": labels[label]}
    for sentence, label in zip(opinions.corpus["train"], opinions.labels("train"), strict=True)
]
watch = vg.WatchCallback(tokenizer, "treebank", ["upos"], every=25, folder="runs/watch")
settings = TrainingArguments("runs/watch/model", max_steps=75, per_device_train_batch_size=16, learning_rate=1e-4)
trainer = Trainer(model, settings, train_dataset=train, processing_class=tokenizer)
watch.attach(trainer)
trainer.train()
print(watch.run.report())
