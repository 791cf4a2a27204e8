"""A dependency parser on top of word vectors: the deep biaffine head of Dozat and Manning (2017)."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from vestige.errors import CorpusError, ModelError
from vestige.finetune.mst import best_tree


class ParserHead(nn.Module):
    """Scores for every head of every word, and for every label of an arc; a learned vector stands for the root.

    Each word is seen in four ways (as head and as dependent, for arcs and for labels), each through a
    linear map, LeakyReLU and dropout that drops the same units for all words of a sentence. A word is
    never its own head. Untrained, all heads and all labels are nearly as likely.
    """

    def __init__(self, width: int, labels: int, arc: int = 500, label: int = 100, dropout: float = 0.33) -> None:
        super().__init__()
        self.root = nn.Parameter(torch.empty(width))
        self.arc_head, self.arc_dependent = _View(width, arc, dropout), _View(width, arc, dropout)
        self.label_head, self.label_dependent = _View(width, label, dropout), _View(width, label, dropout)
        self.arcs = nn.Parameter(torch.empty(arc + 1, arc))
        """The row more is a score of each head whatever the dependent; one of dependents would cancel out."""
        self.labels = nn.Parameter(torch.empty(labels, label + 1, label + 1))
        nn.init.normal_(self.root, std=width**-0.5)
        nn.init.normal_(self.arcs, std=1 / arc)
        nn.init.normal_(self.labels, std=1 / label)

    def loss(self, words: Tensor, mask: Tensor, heads: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of the heads plus that of the labels given the true heads, each the mean over words.

        `words` (sentences, words, width); `mask` is true for words and false for the padding after
        them; a head is 0 for the root and k for the k-th word. Words whose head is -1 do not count.
        """
        counted = tuple(place.to(heads.device) for place in self._counted(mask, heads, labels))
        everything = self._with_root(words, mask)
        of_heads = cross_entropy(self._arc_scores(everything, mask)[counted], heads[counted])
        of_labels = cross_entropy(self._label_scores(everything, heads.clamp(min=0))[counted], labels[counted])
        return of_heads + of_labels

    @torch.inference_mode()
    def decode(self, words: Tensor, mask: Tensor, single_root: bool = True) -> list[tuple[np.ndarray, np.ndarray]]:
        """Heads and labels of each sentence: the best tree, and the best label of each of its arcs."""
        with _without_dropout(self):
            everything = self._with_root(words, mask)
            lengths = _lengths(mask)
            scores = self._arc_scores(everything, mask).cpu().double().numpy()
            trees = [best_tree(rows[:n, : n + 1], single_root) for rows, n in zip(scores, lengths, strict=True)]
            heads = torch.zeros(mask.shape, dtype=torch.long)
            for row, tree in zip(heads, trees, strict=True):
                row[: len(tree)] = torch.from_numpy(tree)
            labels = self._label_scores(everything, heads.to(words.device)).argmax(-1).cpu().numpy()
        return [(tree, row[: len(tree)]) for tree, row in zip(trees, labels, strict=True)]

    def _with_root(self, words: Tensor, mask: Tensor) -> Tensor:
        """(sentences, 1 + words, width), the root first and zeros for padding."""
        if words.ndim != 3 or words.shape[-1] != len(self.root):
            raise ModelError(
                f"the parser reads (sentences, words, {len(self.root)}), found {tuple(words.shape)}",
                fix="give it the vectors of words it was made for",
            )
        clean = words.to(self.root.dtype).masked_fill(~mask[..., None], 0.0)
        return torch.cat([self.root.expand(len(words), 1, -1), clean], 1)

    def _arc_scores(self, everything: Tensor, mask: Tensor) -> Tensor:
        """(sentences, words, 1 + words): no arc leads from padding or from a word to itself."""
        dependents = pad(self.arc_dependent(everything[:, 1:]), (0, 1), value=1.0)
        scores = dependents @ self.arcs @ self.arc_head(everything).mT
        itself = torch.eye(*scores.shape[1:], dtype=torch.bool, device=mask.device).roll(1, 1)
        return scores.masked_fill(~pad(mask, (1, 0), value=True)[:, None] | itself, -torch.inf)

    def _label_scores(self, everything: Tensor, heads: Tensor) -> Tensor:
        """(sentences, words, labels) of the arcs to these heads."""
        views = self.label_head(everything)
        chosen = views.gather(1, heads[..., None].expand(-1, -1, views.shape[-1]))
        dependents = pad(self.label_dependent(everything[:, 1:]), (0, 1), value=1.0)
        halfway = torch.einsum("bwi,kij->bwkj", dependents, self.labels)
        return (halfway @ pad(chosen, (0, 1), value=1.0)[..., None]).squeeze(-1)

    def _counted(self, mask: Tensor, heads: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Sentence and place of the words that count, on the CPU, where all is checked: a GPU is waited for once."""
        mask, heads, labels = torch.stack([mask.to(heads.dtype), heads, labels]).cpu()
        mask = mask.bool()
        lengths = torch.tensor(_lengths(mask))
        counted = mask & (heads >= 0)
        itself = heads == torch.arange(1, heads.shape[1] + 1)
        wrong = counted & ((heads > lengths[:, None]) | itself)
        if wrong.any():
            sentence, word = wrong.nonzero()[0].tolist()
            raise CorpusError(
                f"sentence {sentence} of the batch has {lengths[sentence]} words, and the head of word {word + 1} is "
                f"{heads[sentence, word]}",
                fix="heads are 0 for the root or the number of another word; -1 leaves a word out",
            )
        if not counted.any():
            raise CorpusError("no word of the batch has a head", fix="leave such sentences out")
        known = (labels >= 0) & (labels < len(self.labels))
        if not known[counted].all():
            raise CorpusError(
                f"the parser has labels 0 to {len(self.labels) - 1}, found {labels[counted & ~known][0]}",
                fix="number the labels of the training set",
            )
        return counted.nonzero(as_tuple=True)


class _View(nn.Module):
    """One way to see a word."""

    def __init__(self, width: int, size: int, dropout: float) -> None:
        super().__init__()
        self.map = nn.Linear(width, size)
        self.active = nn.LeakyReLU(0.1)
        self.drop = nn.Dropout1d(dropout)

    def forward(self, words: Tensor) -> Tensor:
        return self.drop(self.active(self.map(words)).mT).mT


def _lengths(mask: Tensor) -> list[int]:
    """Number of words of each sentence; padding comes after them."""
    lengths = mask.sum(1)
    if not torch.equal(mask, torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]):
        raise ModelError("the mask has padding before words", fix="pad sentences on the right")
    return lengths.tolist()


@contextmanager
def _without_dropout(module: nn.Module) -> Iterator[None]:
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)
