"""Sentence tasks that leave the words as they are: length, content, depth and top constituents.

After SentEval's probing tasks (Conneau et al. 2018), for any treebank or text.
"""

from collections import Counter
from dataclasses import replace

from vestige.corpus.derive.dependencies import Dependencies
from vestige.corpus.derive.examples import Example, Selection, is_word
from vestige.corpus.options import Bounds, Count, Whole
from vestige.corpus.readers.brackets import Tree, parse_tree
from vestige.corpus.types import Sentence

BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
"""SentEval's classes of sentence length, both ends included; the label is a bin's number."""

DECORRELATED = "to decorrelate depth from length"

RELATION_CLASSES = {
    **dict.fromkeys(("nsubj", "csubj", "expl"), "SUBJ"),
    **dict.fromkeys(("obj", "iobj"), "OBJ"),
    **dict.fromkeys(("ccomp", "xcomp"), "COMP"),
    **dict.fromkeys(("obl", "advmod", "advcl"), "ADV"),
    **dict.fromkeys(("conj", "parataxis"), "CLAUSE"),
    **dict.fromkeys(("nmod", "amod", "acl", "appos", "nummod", "compound", "flat", "list"), "MOD"),
}
"""Classes of the root's dependents; function words and punctuation are in none."""


def sentence_length(selection: Selection, *, balance: bool = False) -> str:
    """The number of words, in SentEval's six bins."""

    def make(sentence: Sentence, split: str) -> Example | str:
        for number, (least, most) in enumerate(BINS):
            if least <= len(sentence.words) <= most:
                return Example(sentence, str(number), sentence.words)
        return "length in no bin"

    selection.build(make)
    if balance:
        selection.balance()
    return "number of words in the bins " + ", ".join(f"{number}: {a}-{b}" for number, (a, b) in enumerate(BINS))


def word_content(selection: Selection, *, targets: Count | None = None, skip: Whole | None = None) -> str:
    """Which of the target words the sentence has; it has exactly one of them, once.

    SentEval takes the 1000 words of four letters or more that follow the 2000 most frequent ones. Here
    the number of targets is a word in 1000 of the corpus (20 to 1000), unless given; `skip` words are
    passed over: twice as many as targets, and all that make more than one word in 1000.
    """
    counts = Counter(w.lower() for items in selection.sources.values() for s in items for w in s.words)
    total = counts.total()
    number = targets or min(1000, max(20, total // 1000))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    passed = skip if skip is not None else max(2 * number, sum(count > total / 1000 for count in counts.values()))
    chosen = {*[word for word in ranked[passed:] if len(word) >= 4 and word.isalpha()][:number]}

    def make(sentence: Sentence, split: str) -> Example | str:
        found = [word for word in map(str.lower, sentence.words) if word in chosen]
        if len(found) != 1:
            return "several target words" if found else "no target word"
        return Example(sentence, found[0], sentence.words)

    selection.build(make)
    selection.keep_labels(2)
    return f"which of {len(chosen)} words the sentence has (frequency ranks from {passed + 1}, four letters or more)"


def tree_depth(
    selection: Selection, *, decorrelate: bool = True, depths: Bounds | None = None, least: Count = 20
) -> str:
    """The depth of the tree: of constituents where there are any, else of dependencies.

    Deep trees are long. SentEval samples until depth and length are uncorrelated; here every length
    keeps as many sentences of each of a few `depths` (chosen on train unless given). Without
    `decorrelate` all depths with `least` examples in train are kept.
    """
    from_brackets = "brackets" in selection.available

    def make(sentence: Sentence, split: str) -> Example | str:
        tree = _bracketed(sentence) if from_brackets else Dependencies.of(sentence)
        if tree is None:
            return "no tree"
        return Example(sentence, str(tree.depth if isinstance(tree, Tree) else tree.depth()), sentence.words)

    selection.build(make)
    how = (
        "steps from the topmost constituent to the farthest word"
        if from_brackets
        else "arcs from the root of the dependency tree to the farthest word (no constituents are annotated)"
    )
    if decorrelate:
        low, high = depths or _best_band(selection.training)
        selection.keep({split: _matched(selection, split, low, high) for split in selection.examples}, DECORRELATED)
        return f"{how}, {low} to {high}; decorrelated: in every split each length has as many sentences of every depth"
    selection.keep_labels(least)
    return f"{how}; not decorrelated from length"


def top_constituents(selection: Selection, *, classes: Count = 20, least: Count = 20) -> str:
    """The sequence of constituents below the topmost one; without constituents, of the root's dependents."""
    from_brackets = "brackets" in selection.available
    selection.build(_top_of_brackets if from_brackets else _top_of_dependencies)
    counts = Counter(e.label for items in selection.examples.values() for e in items)
    train = Counter(e.label for e in selection.training)
    common = [label for label in sorted(counts, key=lambda label: (-counts[label], label)) if train[label] >= least]
    kept = {*common[: classes - 1]}
    selection.examples = {
        split: [e if e.label in kept else replace(e, label="OTHER") for e in items]
        for split, items in selection.examples.items()
    }
    thinned = {split: _thinned(selection, items) for split, items in selection.examples.items()}
    selection.keep(thinned, "OTHER, to be no more frequent than the most frequent label")
    what = (
        "labels right below the topmost constituent"
        if from_brackets
        else "classes of the root's dependents, repeats and function words left out (no constituents are annotated)"
    )
    return f"sequence of the {what}; the {len(kept)} most frequent, and OTHER"


def _best_band(examples: list[Example]) -> tuple[int, int]:
    """The neighbouring depths that keep most once lengths are matched, each depth past the first counting."""
    counts = Counter((len(e.words), int(e.label)) for e in examples)
    depths, lengths = ({pair[side] for pair in counts} for side in (1, 0))
    bands = [(low, high) for low in depths for high in depths if low < high]

    def worth(band: tuple[int, int]) -> tuple[int, int]:
        span = range(band[0], band[1] + 1)
        kept = sum(min(counts[length, depth] for depth in span) for length in lengths)
        return kept * len(span) * (len(span) - 1), -band[0]

    return max(bands, key=worth, default=(0, 1))


def _matched(selection: Selection, split: str, low: int, high: int) -> list[Example]:
    """As many examples of every depth at every length."""
    cells: dict[tuple[int, int], list[Example]] = {}
    for example in selection.ranked(selection.examples[split]):
        cells.setdefault((len(example.words), int(example.label)), []).append(example)
    band = range(low, high + 1)
    return [
        example
        for length in {length for length, _ in cells}
        for depth in band
        for example in cells.get((length, depth), [])[: min(len(cells.get((length, d), [])) for d in band)]
    ]


def _thinned(selection: Selection, examples: list[Example]) -> list[Example]:
    rest = [e for e in examples if e.label == "OTHER"]
    named = Counter(e.label for e in examples if e.label != "OTHER")
    most = max(named.values(), default=len(rest))
    return [e for e in examples if e.label != "OTHER"] + selection.ranked(rest)[:most]


def _bracketed(sentence: Sentence) -> Tree | None:
    text = sentence.annotations.get("brackets")
    return parse_tree(text) if text else None


def _top_of_brackets(sentence: Sentence, split: str) -> Example | str:
    tree = _bracketed(sentence)
    if tree is None:
        return "no tree"
    labels = tree.top_constituents
    if not labels or labels[-1] != ".":
        return "does not end in a full stop"
    if not all(is_word(label) for label in labels[:-1]):
        return "punctuation among the top constituents"
    return Example(sentence, "_".join(labels), sentence.words)


def _top_of_dependencies(sentence: Sentence, split: str) -> Example | str:
    tree = Dependencies.of(sentence)
    if tree is None:
        return "no tree"
    found: list[str] = []
    for word in sorted((*tree.children[tree.root], tree.root)):
        label = "ROOT" if word == tree.root else RELATION_CLASSES.get(tree.relation(word))
        if label and found[-1:] != [label]:
            found.append(label)
    return Example(sentence, "_".join(found), sentence.words)
