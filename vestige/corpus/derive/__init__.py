"""Tasks made from any treebank or text, for languages and domains without ready files.

>>> load_corpus("treebank", derive="bigram_shift")
>>> derive_task(load_corpus("ud_ewt"), "past_present", seed=1, disjoint_words=False)

Sentence tasks follow SentEval's ten probing tasks (Conneau et al. 2018) and hold nothing but the new
labels; token, span and edge tasks are added to the corpus' own. One sentence of every pair, alone, has no
labels. All are called derived in their notes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple, get_type_hints

from vestige.corpus.catalog import entries
from vestige.corpus.derive import clauses, odd_man_out, pairs, perturb, sentences, spans, tokens
from vestige.corpus.derive.examples import Selection, story
from vestige.corpus.options import check_options
from vestige.corpus.types import Corpus, Level, Sentence, flat_labels
from vestige.errors import CorpusError

_SHARED = ("lengths", "minimum")
"""Options that every sentence task has."""
TREE = ("head", "deprel", "upos")
MAIN_CLAUSE = ((*TREE, "xpos"), (*TREE, "feats"))
ANY_TREE = (("brackets",), ("head", "deprel"))
ANNOTATIONS = {
    "head": ("dependency heads", ("conllu", "gum")),
    "deprel": ("dependency relations", ("conllu", "gum")),
    "upos": ("universal parts of speech", ("conllu", "gum")),
    "xpos": ("the treebank's own parts of speech", ("conllu", "gum")),
    "feats": ("morphological features", ("conllu", "gum")),
    "brackets": ("bracketed constituent trees", ("brackets", "gum")),
    "constituent": ("constituents", ("brackets", "gum")),
    "pos": ("parts of speech", ("brackets", "conll2000")),
}
"""What each is, and the formats whose files can have it."""


class Derived(NamedTuple):
    """A task that can be made from other annotations."""

    needs: tuple[tuple[str, ...], ...]
    """Sets of annotations, any one of which will do; the first that is there is used."""
    level: Level
    description: str
    make: Callable[..., Any]

    def needed(self) -> str:
        """What it needs, in words."""
        sets = [", ".join(f"{ANNOTATIONS[name][0]} (task {name!r})" for name in names) for names in self.needs]
        return "; or ".join(sets) or "words"


DERIVED: dict[str, Derived] = {
    "sentence_length": Derived((), "sentence", "number of words, in six bins", sentences.sentence_length),
    "word_content": Derived((), "sentence", "which of some mid-frequency words it has", sentences.word_content),
    "tree_depth": Derived(ANY_TREE, "sentence", "depth of the syntax tree", sentences.tree_depth),
    "top_constituents": Derived(
        ANY_TREE, "sentence", "sequence of top constituents, or of the root's dependents", sentences.top_constituents
    ),
    "bigram_shift": Derived((), "sentence", "were two neighbouring words swapped", perturb.bigram_shift),
    "past_present": Derived(MAIN_CLAUSE, "sentence", "tense of the main clause", clauses.past_present),
    "subj_number": Derived(MAIN_CLAUSE, "sentence", "number of the main clause's subject", clauses.subj_number),
    "obj_number": Derived(MAIN_CLAUSE, "sentence", "number of the main clause's object", clauses.obj_number),
    "odd_man_out": Derived(
        (("upos",),), "sentence", "was a noun or verb replaced by another one", odd_man_out.odd_man_out
    ),
    "coordination_inversion": Derived(
        (TREE,), "sentence", "were two coordinate clauses inverted", perturb.coordination_inversion
    ),
    "feats": Derived(
        (("feats",),), "token", "one morphological feature, as in feats:Number or just number", tokens.feature
    ),
    "chunk": Derived((("brackets",), TREE), "token", "base phrases, as in CoNLL-2000", tokens.chunk),
    "dependency_arcs": Derived(
        (("head", "deprel"),), "span_pair", "head and dependent, with their relation", spans.dependency_arcs
    ),
    "constituents": Derived((("constituent",), ("brackets",)), "span", "all phrases", spans.constituents),
    "pos_spans": Derived((("xpos",), ("pos",), ("upos",)), "span", "words with part of speech", spans.pos_spans),
    "noun_phrases": Derived((TREE,), "span", "noun phrases with their function", spans.noun_phrases),
    "first_sentence": Derived(
        (), "text", "the first sentence of every pair, alone", partial(pairs.alone, task="first_sentence")
    ),
    "second_sentence": Derived(
        (), "text", "the second sentence of every pair, alone", partial(pairs.alone, task="second_sentence")
    ),
}


def derive_task(corpus: Corpus, task: str, *, seed: int = 0, **options: Any) -> Corpus:
    """The corpus `name+task` with labels made from annotations of `corpus`.

    Options of all sentence tasks: `lengths` (fewest and most words of a sentence; SentEval's 5 to 28
    unless given, None for any) and `minimum` (fewest examples of a split). The task's own options are the
    keyword arguments of its function in `vestige.corpus.derive`.
    """
    available = annotations_of(corpus)
    derived = _find(corpus, task)
    if derived.needs and not any(available.issuperset(names) for names in derived.needs):
        raise _lacking(corpus, task, derived, available)
    _check(task, derived, options)
    if derived.level == "text":
        return derived.make(corpus)
    if derived.level == "sentence":
        shared = {name: options.pop(name) for name in _SHARED if name in options}
        selection = Selection(corpus, task, seed, available, **shared)
        return selection.corpus_of(derived.make(selection, **options))
    return _annotated(corpus, task, derived, *derived.make(corpus, available))


def _check(task: str, derived: Derived, options: Mapping[str, Any]) -> None:
    where = f"the derived task {task!r}"
    if derived.level == "sentence":
        kinds = get_type_hints(Selection.__init__, include_extras=True)
        check_options(where, derived.make, options, {name: kinds[name] for name in _SHARED})
    elif options:
        raise CorpusError(f"{where} has no option {next(iter(options))!r}; it has none", fix="drop it")


def annotations_of(corpus: Corpus) -> frozenset[str]:
    """Annotations that some sentence of every split has, with more in them than `_`."""
    return frozenset.intersection(
        *(
            frozenset(name for s in items for name, value in s.annotations.items() if _says_something(value))
            for items in corpus.splits.values()
            if items
        )
    )


def _says_something(value: Any) -> bool:
    return not isinstance(value, tuple) or any(item not in ("_", -1) for item in value)


def _find(corpus: Corpus, task: str) -> Derived:
    if task in DERIVED and task != "feats":
        return DERIVED[task]
    prefix, colon, name = task.partition(":")
    known = {feature.lower() for feature in (*tokens.UNIVERSAL, *tokens.features_of(corpus))}
    if (prefix == "feats" and colon) or task.lower() in known:
        return DERIVED["feats"]._replace(make=partial(tokens.feature, name=name or task))
    near = get_close_matches(task, [*DERIVED, *known], n=1)
    raise CorpusError(
        f"unknown derived task {task!r}; known: {', '.join(DERIVED)}",
        fix="say which feature, as in feats:Number"
        if task == "feats"
        else f"did you mean {near[0]!r}?"
        if near
        else "name one of them",
    )


def _lacking(corpus: Corpus, task: str, derived: Derived, available: frozenset[str]) -> CorpusError:
    lacking = [[name for name in names if name not in available] for names in derived.needs]
    formats = [set.intersection(*({*ANNOTATIONS[name][1]} for name in names)) for names in derived.needs]
    having = [
        entry.name
        for entry in entries()
        if any(entry.format in found for found in formats)
        and not (entry.builtin and ("feats",) in derived.needs)  # the built-in treebank has no features
    ]
    return CorpusError(
        f"the derived task {task!r} needs {derived.needed()}; corpus {corpus.name!r} lacks "
        f"{' or '.join(', '.join(names) for names in lacking)} (it has {', '.join(sorted(available)) or 'words only'})",
        fix=f"take a corpus that has it: {', '.join(having)}, or any treebank of that format",
    )


def _annotated(corpus: Corpus, task: str, derived: Derived, annotate: tokens.Annotate, how: str) -> Corpus:
    if task in corpus.levels:
        raise CorpusError(
            f"corpus {corpus.name!r} already has a task {task!r} of its own",
            fix="use that one: leave out derive",
        )
    splits: dict[str, tuple[Sentence, ...]] = {}
    stories = []
    for split, items in corpus.splits.items():
        labelled = [(s, annotate(s)) for s in items]
        splits[split] = tuple(
            replace(s, annotations={**s.annotations, task: labels}) for s, labels in labelled if labels is not None
        )
        lost = len(items) - len(splits[split])
        given = Counter(flat_labels((s.annotations[task] for s in splits[split]), derived.level))
        left_out = f"{lost} without a whole tree" if lost else ""
        stories.append(story(split, len(splits[split]), len(items), left_out, given))
    notes = (*corpus.notes, f"derived: {task}: {how}", *stories)
    return Corpus(f"{corpus.name}+{task}", splits, {**corpus.levels, task: derived.level}, notes)
