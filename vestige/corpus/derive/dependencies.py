"""A sentence's dependency tree: children, subtrees, depth, and the morphology of its words."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from vestige.corpus.types import Sentence


def universal(relation: str) -> str:
    """A relation without its subtype: `nsubj:pass` is an `nsubj`."""
    return relation.partition(":")[0]


def features(column: str) -> dict[str, str]:
    """`Number=Sing|Person=3` by feature; `_` has none."""
    return dict(pair.split("=", 1) for pair in column.split("|") if "=" in pair)


@dataclass(frozen=True)
class Dependencies:
    """One rooted tree over the words; words are counted from 0, the root's head is -1."""

    words: tuple[str, ...]
    heads: tuple[int, ...]
    columns: Mapping[str, tuple[str, ...]]
    """The other columns of the treebank, by name; one that is missing reads as `_`."""

    @classmethod
    def of(cls, sentence: Sentence) -> "Dependencies | None":
        """The tree of a sentence, or None where its heads do not make one tree over all its words."""
        heads = sentence.annotations.get("head")
        if heads is None or sentence.second or len(heads) != len(sentence.words):
            return None
        if list(heads).count(0) != 1 or min(heads) < 0 or max(heads) > len(heads):
            return None
        tree = cls(sentence.words, tuple(head - 1 for head in heads), sentence.annotations)
        return tree if len(tree.subtree(tree.root)) == len(sentence.words) else None

    def column(self, name: str, word: int) -> str:
        """One annotation of one word."""
        return self.columns[name][word] if name in self.columns else "_"

    def upos(self, word: int) -> str:
        return self.column("upos", word)

    def xpos(self, word: int) -> str:
        return self.column("xpos", word)

    def relation(self, word: int) -> str:
        """Relation of the word to its head, without subtype."""
        return universal(self.column("deprel", word))

    def features(self, word: int) -> dict[str, str]:
        return features(self.column("feats", word))

    @cached_property
    def root(self) -> int:
        return self.heads.index(-1)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Dependents of every word, left to right."""
        found: list[list[int]] = [[] for _ in self.words]
        for word, head in enumerate(self.heads):
            if head >= 0:
                found[head].append(word)
        return tuple(map(tuple, found))

    def dependents(self, word: int, *relations: str) -> list[int]:
        """Dependents in one of the (universal) relations."""
        return [child for child in self.children[word] if self.relation(child) in relations]

    def subtree(self, word: int) -> list[int]:
        """The word and everything below it, left to right."""
        found = [word]
        for item in found:
            found.extend(self.children[item])
        return sorted(found)

    def depth(self) -> int:
        """Arcs between the root and the deepest word that is no punctuation."""
        level = [self.root]
        depth = -1
        while level:
            depth += 1
            level = [child for word in level for child in self.children[word] if self.relation(child) != "punct"]
        return depth
