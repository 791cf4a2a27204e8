"""One sentence of every pair, alone: premises without hypotheses, questions without passages.

merchant2020 section 6 compares models on both. A premise stands in several pairs; here every sentence of
a split comes once, for the same words twice would be the same vectors twice. Labels were of the pair
and are left behind.
"""

from vestige.corpus.types import Corpus, Sentence
from vestige.errors import CorpusError


def alone(corpus: Corpus, task: str) -> Corpus:
    """The corpus of the first sentences (premises, questions), or of the second ones (hypotheses, passages)."""
    splits, stories = {}, []
    for split, items in corpus.splits.items():
        pairs = [sentence for sentence in items if sentence.second]
        once: dict[tuple[str, ...], Sentence] = {}
        for pair in pairs:
            once.setdefault(pair.words if task == "first_sentence" else pair.second, pair)
        splits[split] = tuple(
            Sentence(pair.id, words, annotations={task: None}, source=pair.source) for words, pair in once.items()
        )
        stories.append(f"{split}: {len(once)} different sentences of {len(pairs)} pairs")
    if not any(splits.values()):
        raise CorpusError(
            f"the derived task {task!r} needs pairs of sentences; corpus {corpus.name!r} has none",
            fix="take a corpus of pairs (mnli, rte, squad11), or leave out derive",
        )
    how = f"the {task.replace('_', ' ')} of every pair, alone; each different one once"
    notes = (*corpus.notes, f"derived: {task}: {how}", *stories)
    return Corpus(f"{corpus.name}+{task}", splits, {task: "text"}, notes)
