"""Constituent trees in brackets, as the Penn Treebank writes them: `(S (NP (PRP It)) (VP (VBZ rains)))`.

Trees are normalised while they are read. Empty elements (`-NONE-`) go, and phrases that held nothing
else with them. Function tags and indices go (`NP-SBJ-1`, `NP=2`, `ADVP|PRT` -> `NP`, `NP`, `ADVP`)
unless asked for. The wrapper around a whole tree (`( ...)`, `(ROOT ...)`, `(TOP ...)`) is no phrase
and goes. Words lose the treebank's escapes (`-LRB-` -> `(`, `1\\/2` -> `1/2`); tags stay as they are.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vestige.corpus.readers.text import files_below, read_lines
from vestige.corpus.types import Sentence, Span, with_ids
from vestige.errors import CorpusError

WRAPPERS = frozenset(("", "ROOT", "TOP", "S1", "VROOT"))
SUFFIXES = (".ptb", ".mrg", ".parse", ".txt")

_TOKEN = re.compile(r"[()]|[^\s()]+")
_FUNCTION_TAGS = re.compile(r"(?<=.)[-=|].*")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_ESCAPED = re.compile(r"-[LR][RSC]B-|\\[/*]")


@dataclass(frozen=True, slots=True)
class Tree:
    """A node: a phrase with children, or a preterminal (a tag) with its word."""

    label: str
    start: int
    end: int
    """It covers the sentence's words[start:end]."""
    children: tuple["Tree", ...] = ()
    word: str = ""

    def nodes(self) -> Iterator["Tree"]:
        """This node and all below it: parents first, then from left to right."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    @property
    def preterminals(self) -> tuple["Tree", ...]:
        """The nodes right above the words."""
        return tuple(node for node in self.nodes() if not node.children)

    @property
    def words(self) -> tuple[str, ...]:
        """The words below."""
        return tuple(node.word for node in self.nodes() if not node.children)

    @property
    def phrases(self) -> tuple["Tree", ...]:
        """The nodes above preterminals."""
        return tuple(node for node in self.nodes() if node.children)

    @property
    def depth(self) -> int:
        """Steps from here down to the farthest word: 3 for `(S (NP (PRP It)) (VP (VBZ rains)))`.

        SentEval's tree depth is the longest path from the root to a word; the paper does not say
        whether it counts the wrapper, which would make every depth one more.
        """
        steps, level = 0, [self]
        while level:
            steps, level = steps + 1, [child for node in level for child in node.children]
        return steps

    @property
    def top_constituents(self) -> tuple[str, ...]:
        """The labels right below this node, tags of punctuation and bare words among them.

        SentEval's top constituents are those below the topmost node: `NP VP .`.
        """
        return tuple(child.label for child in self.children)

    def __str__(self) -> str:
        """The tree on one line, which `parse_tree` reads back."""
        parts: list[str] = []
        waiting: list[Tree | str] = [self]
        while waiting:
            node = waiting.pop()
            if isinstance(node, str):
                parts.append(node)
            elif node.children:
                parts.append(f" ({node.label}")
                waiting.append(")")
                waiting.extend(reversed(node.children))
            else:
                parts.append(f" ({node.label} {node.word.replace('(', '-LRB-').replace(')', '-RRB-')})")
        return "".join(parts).lstrip()


def parse_tree(text: str, *, function_tags: bool = False) -> Tree:
    """The one tree of a text, normalised."""
    trees = [tree for _, tree in parse_trees(text.splitlines(), "tree", function_tags=function_tags)]
    if len(trees) != 1:
        raise CorpusError(f"expected one bracketed tree, found {len(trees)}: {text[:60]!r}", fix="give trees singly")
    return trees[0]


def read_brackets(
    path: str | Path | Sequence[str | Path], *, function_tags: bool = False, suffixes: Sequence[str] = SUFFIXES
) -> list[Sentence]:
    """Sentences from trees over one or several lines: "pos" (tags), "constituent" (phrases), "brackets".

    The path may be a file, a folder (all its files with one of the suffixes, by name), or a list of them.

    Every phrase gives a span of its own, as edge probing's nonterminals do: `(VP (VP go))` and
    `(S (VP go))` both give two spans over one word. They come parents first, then from left to right.
    "brackets" is the normalised tree on one line, for tasks made from trees.
    """
    found = []
    for file in files_below(path, suffixes):
        for line, tree in parse_trees(read_lines(file), file, function_tags=function_tags):
            tags = tuple(leaf.label for leaf in tree.preterminals)
            annotations = {"pos": tags, **constituents(tree)}
            found.append(Sentence("", tree.words, annotations=annotations, source=f"{file}:{line}"))
    return with_ids(found)


def constituents(tree: Tree) -> dict[str, Any]:
    """The annotations "constituent" and "brackets" of a tree."""
    spans = (Span(node.start, node.end, (node.label,)) for node in tree.phrases if node.label not in WRAPPERS)
    return {"constituent": tuple(spans), "brackets": str(tree)}


def parse_trees(lines: Iterable[str], where: str | Path, *, function_tags: bool = False) -> Iterator[tuple[int, Tree]]:
    """The trees of a file, each with the (1-based) number of its first line."""
    stack: list[_Open] = []
    words = 0
    for number, line in enumerate(lines, start=1):
        for token in _TOKEN.findall(line):
            if token == "(":
                stack.append(_Open(number))
            elif not stack:
                what = "a closing bracket too many" if token == ")" else f"{token!r} outside of brackets"
                raise CorpusError(f"{where}:{number}: unbalanced brackets: {what}", fix="repair the tree before it")
            elif token == ")":
                node = stack.pop()
                tree = node.close(words, where, function_tags)
                words += bool(tree and tree.word)
                if stack:
                    stack[-1].holds = True
                    if tree:
                        stack[-1].children.append(tree)
                elif tree:
                    yield node.line, _unwrapped(tree)
                    words = 0
                else:
                    raise CorpusError(f"{where}:{node.line}: an empty tree, without a word", fix="remove it")
            else:
                stack[-1].take(token, where, number)
    if stack:
        raise CorpusError(
            f"{where}:{stack[0].line}: unbalanced brackets: the tree that starts here lacks {len(stack)} closing ones",
            fix="close it, or check that the file is whole",
        )


@dataclass(slots=True)
class _Open:
    """A node whose closing bracket is still to come."""

    line: int
    label: str | None = None
    word: str | None = None
    holds: bool = False
    children: list[Tree] = field(default_factory=list)

    def take(self, token: str, where: str | Path, line: int) -> None:
        if self.label is None and not self.holds:
            self.label = token
        elif self.word is None and not self.holds:
            self.word = token
        else:
            raise CorpusError(
                f"{where}:{line}: the word {token!r} stands beside another word or phrase",
                fix="give every word a pair of brackets with its tag: (NN word)",
            )

    def close(self, words: int, where: str | Path, function_tags: bool) -> Tree | None:
        """The node, or None where nothing but empty elements is below it."""
        label = self.label or ""
        if self.word is not None:
            if self.holds:
                raise CorpusError(
                    f"{where}:{self.line}: the node ({label} {self.word} ...) has a word and a child",
                    fix="give every word a pair of brackets with its tag: (NN word)",
                )
            word = _ESCAPED.sub(_unescaped, self.word)
            return None if label == "-NONE-" else Tree(label, words, words + 1, word=word)
        if not self.holds:
            what = f"the node ({label}) has neither a word nor a child" if label else "an empty tree: ()"
            raise CorpusError(f"{where}:{self.line}: {what}", fix="remove it, or give it a word")
        if not self.children:
            return None
        label = label if function_tags else _FUNCTION_TAGS.sub("", label)
        return Tree(label, self.children[0].start, self.children[-1].end, tuple(self.children))


def _unwrapped(tree: Tree) -> Tree:
    while tree.label in WRAPPERS and len(tree.children) == 1:
        tree = tree.children[0]
    return tree


def _unescaped(match: re.Match[str]) -> str:
    return _BRACKETS.get(match[0], match[0][-1])
