"""What every reading of a layer gets right: the base's probe on base and tuned model, as they are and after maps."""

from collections.abc import Mapping

import numpy as np

from vestige.analyses.base import Outcome
from vestige.analyses.failed_probe import failure
from vestige.analyses.transfer_probes import Reader, fit_maps, layer_of, with_one_ridge
from vestige.probes.rows import LabelledRows

LEVELS = ("base", "as_is", "rotated", "affine", "own")
"""Readings, each a column of the items and a metric `..._accuracy`."""
SPLIT = {
    "drop": ("as_is", "base"),
    "lost": ("own", "base"),
    "re_encoded": ("rotated", "own"),
    "moved": ("as_is", "rotated"),
    "re_encoded_affine": ("affine", "own"),
    "moved_affine": ("as_is", "affine"),
}
"""Every part is the second reading minus the first."""


class Transfer:
    """The rows of a base and a tuned model, the same words; what was read of them, and where it is reported."""

    def __init__(
        self,
        base: LabelledRows,
        tuned: LabelledRows,
        split: str,
        outcome: Outcome,
        *,
        tolerance: float,
        l2: float | None,
    ) -> None:
        self.base, self.tuned, self.split, self.outcome = base, tuned, split, outcome
        self.tolerance, self.l2 = tolerance, l2
        self.depth = min(base.layers, tuned.layers)
        self.gold, self.dev_gold = base.labels[split], base.labels["dev"]
        self.dev_loss: dict[int, float] = {}
        self._readers: dict[int, Reader] = {}
        self._right: dict[int, dict[str, np.ndarray]] = {}
        self._elsewhere: dict[int, np.ndarray] = {}

    def remarks(self) -> None:
        """What is left out, and what the maps are fitted on."""
        outcome, (base, tuned) = self.outcome, (side.representations["train"] for side in (self.base, self.tuned))
        pairs = list(zip(base.widths, tuned.widths, strict=False))
        deeper, words = max(base.layers, tuned.layers), len(self.base.labels["train"])
        outcome.add("left_out_layers", deeper - self.depth, n=deeper)
        outcome.add("other_widths", sum(one != other for one, other in pairs), n=self.depth)
        outcome.add("few_words", int(words <= max(max(pair) for pair in pairs)), n=words)
        outcome.add("unseen_label_words", int((self.gold < 0).sum()), n=len(self.gold))
        if all(one != other for one, other in pairs):
            without = ("drop", "re_encoded", "moved", "moved_affine", "as_is_accuracy", "rotated_accuracy", "scale")
            outcome.absent |= dict.fromkeys(without, "no layer of the tuned model is as wide as the base's")

    def read(self, layer: int) -> None:
        """All readings of a layer."""
        base, tuned = layer_of(self.base, layer), layer_of(self.tuned, layer)
        same = all(np.array_equal(base[split], tuned[split]) for split in ("train", "dev"))
        sides = (self.base, self.base if same else self.tuned)
        ours, own = with_one_ridge(sides, layer, (base, base if same else tuned), self.tolerance, self.l2)
        right = {"base": ours.right(base[self.split], self.gold), "own": own.right(tuned[self.split], self.gold)}
        if base["train"].shape[1] == tuned["train"].shape[1]:
            right["as_is"] = ours.right(tuned[self.split], self.gold)
        if same:  # the base's own hidden states need no map
            right |= {"rotated": right["as_is"], "affine": right["as_is"]}
            self.outcome.add("scale", 1.0, layer=layer)
        else:
            right |= self._mapped(layer, ours, base, tuned)
        self._readers[layer], self._right[layer] = ours, right
        self._trained(layer, (ours, own), (base, tuned))
        self._report(layer, right)

    def _mapped(
        self, layer: int, ours: Reader, base: Mapping[str, np.ndarray], tuned: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        maps, found = fit_maps(tuned, base, ours, self.dev_gold), {}
        if maps.rotated is not None:
            found["rotated"] = ours.right(maps.rotated.of_array(tuned[self.split]), self.gold)
            size = float(maps.rotated.weights.square().sum() / len(maps.rotated.weights)) ** 0.5
            self.outcome.add("scale", size, layer=layer)
        return {**found, "affine": ours.right(maps.affine.of_array(tuned[self.split]), self.gold)}

    def _trained(
        self, layer: int, readers: tuple[Reader, Reader], arrays: tuple[Mapping[str, np.ndarray], ...]
    ) -> None:
        """How the probes were trained, whether one failed, and what is lost on dev."""
        dev, missed = [], []
        for reader, mine, rows in zip(readers, arrays, (self.base, self.tuned), strict=True):
            seen, held = (reader.accuracy(mine[split], rows.labels[split]) for split in ("train", "dev"))
            dev.append(held)
            missed.append(failure(rows, layer, (seen, held), converged=True))
        self.dev_loss[layer] = dev[0] - dev[1]
        self.outcome.add("failed_probe", max(missed), layer=layer, n=len(self.dev_gold))
        self.outcome.add("l2", readers[0].probe.ridge, layer=layer)
        self.outcome.add("optimality_gap", max(float(one.probe.fit.gap[0]) for one in readers), layer=layer)

    def _report(self, layer: int, right: Mapping[str, np.ndarray]) -> None:
        where = {"layer": layer, "n": len(self.gold)}
        accuracy = {name: float(values.mean()) for name, values in right.items()}
        for name, value in accuracy.items():
            self.outcome.add(f"{name}_accuracy", value, **where)
        for part, (before, after) in SPLIT.items():
            if before in accuracy and after in accuracy:
                self.outcome.add(part, accuracy[after] - accuracy[before], **where)

    def read_across(self, layer: int) -> None:
        """The base's probe of a layer on every other layer of the tuned model, and on the best of these in the base."""
        base, reader = layer_of(self.base, layer), self._readers[layer]
        best, there = -1.0, -1
        for other in range(self.tuned.layers):
            if other == layer:
                for name in ("rotated", "affine"):
                    if name in self._right[layer]:
                        self._across(layer, other, name, self._right[layer][name])
                continue
            tuned = layer_of(self.tuned, other)
            maps = fit_maps(tuned, base, reader, self.dev_gold)
            if maps.rotated is not None:
                rotated = maps.rotated.of_array(tuned[self.split])
                self._across(layer, other, "rotated", reader.right(rotated, self.gold))
            right = reader.right(maps.affine.of_array(tuned[self.split]), self.gold)
            self._across(layer, other, "affine", right)
            on_dev = reader.accuracy(maps.affine.of_array(tuned["dev"]), self.dev_gold)
            if on_dev > best:
                best, there, self._elsewhere[layer] = on_dev, other, right
        if there >= 0:
            self._report_best(layer, there, reader, base)

    def _across(self, layer: int, other: int, name: str, right: np.ndarray) -> None:
        self.outcome.add("across_accuracy", right.mean(), layer=other, layer2=layer, subset=name, n=len(self.gold))

    def _report_best(self, layer: int, there: int, reader: Reader, base: Mapping[str, np.ndarray]) -> None:
        where = {"layer": layer, "n": len(self.gold)}
        own, found = self._right[layer]["own"], self._elsewhere[layer]
        self.outcome.add("elsewhere", found.mean() - own.mean(), **where)
        self.outcome.add("elsewhere_layer", there, **where)
        if there < self.base.layers:
            before = layer_of(self.base, there)
            affine = fit_maps(before, base, reader, self.dev_gold).affine
            self.outcome.add(
                "elsewhere_in_base", reader.accuracy(affine.of_array(before[self.split]), self.gold), **where
            )

    def items(self) -> dict[str, np.ndarray]:
        """Every scored word at every layer: which readings get it right."""
        nothing = np.zeros(len(self.gold), dtype=bool)
        layers = [*self._right]
        found = self._words(layers)
        for name in LEVELS:
            found[name] = np.concatenate([self._right[layer].get(name, nothing) for layer in layers])
        found["same_width"] = np.repeat(["as_is" in self._right[layer] for layer in layers], len(self.gold))
        return found

    def elsewhere_table(self) -> dict[str, np.ndarray]:
        """The words of layers that were looked for in others; empty where none was."""
        layers = [*self._elsewhere]
        if not layers:
            return {}
        own = np.concatenate([self._right[layer]["own"] for layer in layers])
        return {**self._words(layers), "own": own, "elsewhere": np.concatenate([*self._elsewhere.values()])}

    def _words(self, layers: list[int]) -> dict[str, np.ndarray]:
        sentences, words = self.base.places(self.split)
        return {
            "sentence": np.tile(sentences, len(layers)),
            "word": np.tile(words, len(layers)),
            "layer": np.repeat(np.array(layers, dtype=np.int16), len(words)),
        }
