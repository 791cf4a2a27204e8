"""What an edge probe is given to read: the labelled spans of a split, as runs of rows that have vectors."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestige.corpus.types import Span, SpanPair, Task
from vestige.errors import AnalysisError
from vestige.probes.axes import principal_rotation
from vestige.probes.edges.model import Edges, Source
from vestige.probes.problem import RESIDENT_BYTES, Features, standard
from vestige.representations.store import Representations


@dataclass(frozen=True)
class EdgeTargets:
    """The targets of a split whose spans have vectors."""

    representations: Representations
    ids: list[str]
    """Of the sentences that have targets."""
    firsts: np.ndarray
    """(sentences + 1,): number of every sentence's first target."""
    numbers: np.ndarray
    """(targets,): the target's number in its sentence."""
    spans: np.ndarray
    """(targets, 1 or 2, 2): rows."""
    labels: list[tuple[str, ...]]
    given: int
    left_out: Counter[str]
    shortened: int
    """Targets of which some words, not all, lack a vector."""

    @classmethod
    def of(cls, task: Task, split: str, representations: Representations) -> "EdgeTargets":
        sentences, index = task.corpus[split], representations.index
        rows = np.searchsorted(index[:, 0], np.arange(len(sentences) + 1))
        ids, firsts, numbers, spans, labels = [], [0], [], [], []
        left_out, shortened, given = Counter[str](), 0, 0
        for sentence, start, end in zip(sentences, rows[:-1], rows[1:], strict=True):
            targets = sentence.annotations[task.name]
            if not targets:
                continue
            given += len(targets)
            wanted = np.array([_ends(target) for target in targets])
            words = index[start:end, 1]
            found = np.searchsorted(words, wanted)
            there = _words_before(words)
            present = there[found[..., 1]] - there[found[..., 0]]
            for role, absent in enumerate((present == 0).T, start=1):
                left_out[f"no word of span {role} has a vector"] += int(absent.sum())
            kept = np.flatnonzero((present > 0).all(1))
            shortened += int((present < wanted[..., 1] - wanted[..., 0])[kept].any(1).sum())
            if len(kept):
                ids.append(sentence.id)
                firsts.append(firsts[-1] + len(kept))
                numbers.append(kept)
                spans.append(start + found[kept])
                labels += [tuple(targets[at].labels) for at in kept]
        if not ids:
            raise AnalysisError(
                f"corpus {task.corpus.name!r}, split {split!r}: none of {given} targets of "
                f"{task.name!r} in {len(sentences)} sentences can be probed",
                fix="give the split labelled spans, within the words that the model reads",
            )
        return cls(
            representations,
            ids,
            np.array(firsts),
            np.concatenate(numbers),
            np.concatenate(spans),
            labels,
            given,
            +left_out,
            shortened,
        )

    def unseen(self, classes: Sequence[str]) -> list[str]:
        """Labels that train lacks."""
        return sorted({label for labels in self.labels for label in labels} - set(classes))

    def remarks(self, split: str, classes: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Rows on targets that cannot be probed, or not as they should; classes are the labels of train."""
        given = {"split": split, "n": self.given}
        for reason, count in self.left_out.items() or [(None, 0)]:
            yield {"metric": "left_out_targets", "value": count, "subset": reason, **given}
        yield {"metric": "shortened_targets", "value": self.shortened, **given}
        counts = Counter(label for labels in self.labels for label in labels)
        unseen = sum(counts[label] for label in self.unseen(classes))
        yield {"metric": "unseen_labels", "value": unseen, "split": split, "n": counts.total()}

    def for_probes(self, classes: Sequence[str], frames: Mapping[int, Features]) -> Edges:
        """With labels as 0 and 1: those of train, then those it lacks. Layers without a frame are not read."""
        number = {label: at for at, label in enumerate([*classes, *self.unseen(classes)])}
        gold = np.zeros((len(self.labels), len(number)), dtype=np.uint8)
        for row, mine in zip(gold, self.labels, strict=True):
            row[[number[label] for label in mine]] = 1
        layers = [Features(self.representations.layer(layer)) for layer in range(self.representations.layers)]
        for layer, frame in frames.items():
            layers[layer] = frame.like(self.representations.layer(layer)).resident(RESIDENT_BYTES // len(frames))
        return Edges(layers, self.spans, gold, self.firsts)


@dataclass(frozen=True)
class EdgeSplits:
    """The targets of all splits that probes are trained and scored on."""

    targets: dict[str, EdgeTargets]
    classes: list[str]
    """The labels of train, in order."""

    @classmethod
    def of(cls, task: Task, representations: Mapping[str, Representations]) -> "EdgeSplits":
        """Of the splits given, train among them."""
        targets = {split: EdgeTargets.of(task, split, mine) for split, mine in representations.items()}
        given = {frozenset(labels) for labels in targets["train"].labels}
        if len(given) < 2:
            alike = ", ".join(sorted(next(iter(given)))) or "no label"
            raise AnalysisError(
                f"task {task.name!r} of corpus {task.corpus.name!r}: all {len(targets['train'].labels)} targets of "
                f"train have the same labels ({alike})",
                fix="a probe needs targets that differ: choose another task or more sentences",
            )
        return cls(targets, sorted(frozenset.union(*given)))

    @property
    def widths(self) -> list[int]:
        return self.targets["train"].representations.widths

    def remarks(self) -> Iterator[dict[str, Any]]:
        """Rows on targets that cannot be probed, or not as they should."""
        for split, mine in self.targets.items():
            yield from mine.remarks(split, self.classes)

    def edges(self, sources: Iterable[Source], model: str, *, rescale: bool, principal: bool) -> dict[str, Edges]:
        """What probes of these sources read, of every split.

        `rescale`: each layer around its mean, at unit root mean square. `principal`: on the principal axes that all
        layers of one width share, so that they can still be mixed.
        """
        train = self.targets["train"].representations
        frames = {}
        for layer in sorted({layer for source in sources for layer in source.layers}):
            rows = Features(train.layer(layer))
            frames[layer] = standard(rows.array, f"{model}, layer {layer}") if rescale else rows
        if principal:
            for width in {frame.width for frame in frames.values()}:
                alike = [layer for layer, frame in frames.items() if frame.width == width]
                rotation = principal_rotation([frames[layer] for layer in alike])
                frames |= {layer: frames[layer].rotated(rotation) for layer in alike}
        return {split: mine.for_probes(self.classes, frames) for split, mine in self.targets.items()}


def _ends(target: Span | SpanPair) -> list[tuple[int, int]]:
    return [(target.start, target.end)] if isinstance(target, Span) else [target.first, target.second]


def _words_before(words: np.ndarray) -> np.ndarray:
    """(rows + 1,): how many different words stand before each row of a sentence; a word may have several."""
    return np.concatenate([[0], np.cumsum(np.diff(words, prepend=-1) > 0)])
