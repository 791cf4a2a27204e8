"""Geometry: how the vectors of a layer lie in their space, before and after fine-tuning.

Are all directions used, or do vectors crowd around one (Ethayarajh 2019)? How long are they, and how many dimensions do
they fill: by their covariance (participation ratio, IsoScore*) and by their neighbours (TwoNN)? Do a few units carry
most of the variance? No labels and no reference are needed; base and tuned are compared on the same words.

How alike the two models find the words, and whether a fall of CKA is that of a few words or units, is in `similarity`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import Metric, Unit
from vestige.analyses.remarks import VANISHED
from vestige.analyses.settings import Count, Some, Whole
from vestige.analyses.word_vectors import check_lengths, zero_everywhere
from vestige.comparison.estimators import Replicates
from vestige.errors import AnalysisError
from vestige.measures.geometry import OUTLIER, Cloud
from vestige.measures.intrinsic import LEAST_POINTS, intrinsic_dimension
from vestige.measures.jackknife import GROUPS, LEAST_GROUPS, LEAST_ITEMS, deal, jackknife_error
from vestige.measures.student import Student
from vestige.measures.vectors import UndefinedSimilarityError, Vectors
from vestige.progress import bar
from vestige.representations.pool import AnyPooling
from vestige.representations.store import Representations

Measure = Literal["cosine", "norm", "spectrum", "dimension", "outliers"]


def _compared(name: str, title: str, margin: float, decimals: int, about: str, unit: Unit = "none") -> Metric:
    """A result of which base and tuned are compared by its replicates.

    Margins: 1 % noise on all weights of MiniLM moves no layer by more than a ninth of them, and somebody else's
    fine-tune of it moves the top layers by more.
    """
    by = Replicates(where=(("metric", name),))
    return Metric(name, title, unit, margin=margin, decimals=decimals, compared=by, about=about)


_OF: dict[Measure, tuple[Metric, ...]] = {
    "cosine": (
        _compared(
            "mean_cosine", "mean cosine of two words", 0.02, 3,
            "0 where vectors point anywhere, 1 where all point the same way (anisotropy).",
        ),
        _compared(
            "mean_cosine_centred", "mean cosine around the mean vector", 0.005, 4,
            "The same after the mean vector of all words is taken off; near 0 unless vectors form a few bundles.",
        ),
    ),
    "norm": (
        Metric("norm", "mean vector norm", decimals=2),
        _compared(
            "log_norm", "mean log norm of vectors", 0.05, 3,
            "The natural logarithm: a change of 0.05 is one of 5 % in length.",
        ),
    ),
    "spectrum": (
        _compared(
            "participation_ratio", "participation ratio", 2.0, 1,
            "(tr C)^2 / tr C^2 of the covariance C: how many dimensions there would be if all had the same variance.",
        ),
        _compared(
            "isoscore", "IsoScore*", 0.01, 3,
            "Isotropy from 0 (a line) to 1 (all directions alike): the participation ratio of the shrunk covariance as "
            "a share of the width.",
        ),
    ),
    "dimension": (
        _compared(
            "intrinsic_dimension", "intrinsic dimension (TwoNN)", 0.5, 2,
            "From the ratio of the distances to the two nearest neighbours: how many directions there are to move in, "
            "locally.",
        ),
    ),
    "outliers": (
        Metric(
            "outlier_dimensions", "number of outlier dimensions", "count", decimals=0,
            about=f"Units with more than {OUTLIER:g} times the mean variance. They depend on the axes of a model.",
        ),
        _compared(
            "largest_share", "share of the largest unit in the variance", 0.005, 2,
            "Of the variance of all units of the layer. It depends on the axes of a model.", "percent",
        ),
    ),
}  # fmt: skip
_COPIES = Metric(
    "copied_vectors", "copied vectors", "count", decimals=0, role="remark",
    remark="up to {value} of {n} vectors of {model} at {layers} are copies of others (the same token at the same "
    "place) and count once in the intrinsic dimension",
)  # fmt: skip
_UNDEFINED = Metric(
    "alike_vectors", "layers whose vectors do not differ", "count", decimals=0, role="remark",
    remark="vectors of {model} do not differ at {layers}, which has no geometry",
)  # fmt: skip


@dataclass(frozen=True)
class Geometry(Analysis):
    """How the vectors of words lie in their space, layer by layer: directions, lengths, dimensions, outlier units.

    Of a sample of words, the same for all layers. Everything is computed again without each of twenty groups of
    sentences, for intervals and for the comparison of base and tuned.
    """

    name: ClassVar[str] = "geometry"
    title: ClassVar[str] = "Geometry of word vectors"
    source: ClassVar[str] = (
        "anisotropy, Ethayarajh 2019; TwoNN, Facco et al. 2017; IsoScore*, Rudman et al. 2022, Rudman & Eickhoff 2024; "
        "outlier dimensions, Rudman et al. 2023"
    )
    needs = frozenset({"hidden_states"})
    levels = ("token", "span", "span_pair", "sentence", "sentence_pair", "tree", "text")
    uses_labels = False
    metrics = (*(metric for each in _OF.values() for metric in each), _COPIES, _UNDEFINED, VANISHED)

    measures: Annotated[tuple[Measure, ...], Some] = ("cosine", "norm", "spectrum", "dimension", "outliers")
    """What is measured: cosines of pairs, norms, the spectrum of the covariance, the intrinsic dimension, outliers."""
    pooling: AnyPooling = "last"
    """How hidden states of tokens become one vector of a word or a sentence."""
    words: Count | None = 4000
    """Words sampled (all where there are fewer); None: all. Time of `dimension` grows with their square."""
    groups: Whole = GROUPS
    """Of sentences, each left out once for intervals and tests; 0: none of them."""
    seed: Whole = 0
    """Of the sample and the groups."""
    split: str = "test"
    """The split whose words are measured."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.words is not None and self.words < LEAST_ITEMS:
            raise AnalysisError(f"geometry: a sample of {self.words} words is too small", fix=f"words >= {LEAST_ITEMS}")

    @property
    def given(self) -> tuple[Metric, ...]:
        asked = {metric for measure in self.measures for metric in _OF[measure]}
        asked |= {_UNDEFINED, VANISHED} | ({_COPIES} if "dimension" in self.measures else set())
        return tuple(metric for metric in self.metrics if metric in asked)

    @property
    def splits(self) -> tuple[str, ...]:
        return (self.split,)

    def run(self, inputs: Inputs) -> Outcome:
        outcome, found = Outcome(), inputs.split(self.split)
        rows = self._sample(found, inputs.model, outcome)
        cosines = {*self.measures} & {"cosine", "norm"}
        without = "measure without cosines and norms (measures: [spectrum, dimension])" if cosines else ""
        check_lengths(inputs.model, found, rows, inputs.task, self.split, without)
        groups = self._groups(found.index[rows, 0], len(inputs.task.corpus[self.split]))
        kept: list[tuple[str, int, np.ndarray]] = []
        with bar(f"geometry of {inputs.model}", found.layers) as shown:
            for layer in range(found.layers):
                vectors = Vectors.of(found.layer(layer), f"{inputs.model}, layer {layer}", rows)
                alike = _alike(vectors)
                outcome.add(_UNDEFINED.name, alike, layer=layer, n=len(rows))
                if not alike:
                    cloud = Cloud(vectors.block(slice(None)), groups)
                    kept += [(name, layer, values) for name, values in self._measure(cloud, layer, outcome)]
                shown.advance()
        self._report(kept, found, rows, outcome)
        return outcome

    def _sample(self, found: Representations, model: str, outcome: Outcome) -> np.ndarray:
        """Rows of the words that are measured."""
        rows = np.arange(len(found))
        seen = ~zero_everywhere(found, rows)
        outcome.add(VANISHED.name, int((~seen).sum()), n=len(rows))
        rows = rows[seen]
        if len(rows) < LEAST_ITEMS:
            raise AnalysisError(
                f"{model} has {len(rows)} words of {self.split!r}",
                fix=f"at least {LEAST_ITEMS} are needed: give more sentences",
            )
        if self.words is not None and self.words < len(rows):
            rows = np.sort(np.random.default_rng(self.seed).choice(rows, self.words, replace=False))
        return rows

    def _groups(self, sentences: np.ndarray, count: int) -> list[np.ndarray]:
        """Items of every group; groups are of all sentences of the split, so that all models leave out the same."""
        dealt = deal(np.arange(count), self.groups, self.seed) if self.groups else []
        items = [np.flatnonzero(np.isin(sentences, group)) for group in dealt]
        few = len(items) < LEAST_GROUPS or len(sentences) - max(map(len, items)) < LEAST_ITEMS
        return [] if few else items

    def _measure(self, cloud: Cloud, layer: int, outcome: Outcome) -> Iterator[tuple[str, np.ndarray]]:
        """Every metric of a layer: (1 + groups,) numbers."""
        if "cosine" in self.measures:
            yield "mean_cosine", cloud.mean_cosine()
            yield "mean_cosine_centred", cloud.mean_cosine_centred()
        if "norm" in self.measures:
            yield "norm", cloud.norm()
            yield "log_norm", cloud.log_norm()
        if {"spectrum", "outliers"} & {*self.measures}:
            spectra = cloud.spectra()
            names = [metric.name for metric in (*_OF["spectrum"], *_OF["outliers"]) if metric in self.given]
            for name in names:
                yield name, getattr(spectra, name)()
        if "dimension" in self.measures:
            dimension = intrinsic_dimension(cloud.vectors, cloud.groups)
            items = len(cloud.vectors)
            outcome.add(_COPIES.name, items - dimension.points, layer=layer, n=items)
            if len(dimension.values):
                yield "intrinsic_dimension", dimension.values

    def _report(
        self, kept: Sequence[tuple[str, int, np.ndarray]], found: Representations, rows: np.ndarray, outcome: Outcome
    ) -> None:
        for name, layer, values in kept:
            interval = {}
            if name != "outlier_dimensions" and len(values) > LEAST_GROUPS:
                student = Student.of(values[0], [jackknife_error(values[1:])], [len(values) - 2])
                interval = dict(zip(("low", "high"), map(float, student.interval(0.95)), strict=True))
            outcome.add(name, values[0], layer=layer, n=len(rows), **interval)
        measured = {name for name, _, _ in kept}
        results = [metric.name for metric in self.given if metric.role == "result"]
        why = f"fewer than {LEAST_POINTS} different vectors at every layer" if kept else "vectors do not differ"
        outcome.absent |= {name: why for name in results if name not in measured}
        if not kept and "dimension" in self.measures:
            outcome.absent[_COPIES.name] = why
        outcome.tables["replicates"] = _replicates(kept, len(np.unique(found.index[rows, 0])))


def _alike(vectors: Vectors) -> bool:
    try:
        vectors.must_differ()
    except UndefinedSimilarityError:
        return True
    return False


def _replicates(kept: Sequence[tuple[str, int, np.ndarray]], sentences: int) -> dict[str, np.ndarray]:
    """A row for every metric, layer and group of sentences that is left out (-1: nothing)."""
    rows = [(name, layer, group, value) for name, layer, values in kept for group, value in enumerate(values, start=-1)]
    names, layers, groups, numbers = zip(*rows, strict=True) if rows else ((), (), (), ())
    return {
        "metric": np.array(names, dtype=object),
        "layer": np.array(layers, dtype=np.int16),
        "left_out": np.array(groups, dtype=np.int16),
        "sentences": np.full(len(rows), sentences),
        "value": np.array(numbers, dtype=np.float64),
    }
