"""The paper as a declaration."""

from vestige.papers.durrani2020 import figures, tables
from vestige.papers.durrani2020.claims import STATEMENTS
from vestige.papers.opening import open_page
from vestige.papers.paper import Paper, Section
from vestige.papers.published import BERT_CASED, XLNET

NEURONS = ("neurons",)

PAPER = Paper(
    name="durrani2020",
    cite="Durrani, Sajjad, Dalvi and Belinkov 2020, Analyzing Individual Neurons in Pre-trained Language Models "
    "(EMNLP)",
    title="Individual neurons of {models} (after Durrani et al. 2020)",
    question="How few neurons are enough to predict part of speech, semantic tags, chunks and CCG categories, and "
    "where are they?",
    setting="The paper studies BERT, XLNet, T-ELMo and ELMo on the Penn Treebank, the Parallel Meaning Bank, "
    "CoNLL-2000 and CCGbank. Probes are proximal elastic nets (true zeros) with the paper's squared L2, trained until "
    "their gain per round is small rather than for ten epochs; penalties are searched by the paper's score on dev.",
    models=("bert-base-cased", "xlnet-base-cased"),
    opening=open_page,
    statements=STATEMENTS,
    sections=(
        Section("## Tables", tables.ablation, NEURONS),
        Section("", tables.minimal, NEURONS),
        Section("", tables.data, NEURONS),
        Section("", tables.penalties, NEURONS),
        Section("## Figures", figures.spread, NEURONS),
        Section("", figures.labels, NEURONS),
        Section("## Beyond the paper: other rankings, and redundancy", tables.rankers, ("neuron_rankers",)),
        Section("", tables.redundancy, ("neuron_redundancy",)),
    ),
    originals=(BERT_CASED, XLNET),
    sizes={"ptb": 36557, "pmb_semtags": 36928, "conll2000": 8881, "ccgbank": 39101},
)
