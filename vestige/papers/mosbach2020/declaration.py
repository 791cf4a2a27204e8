"""The paper as a declaration."""

from vestige.papers.mosbach2020 import tables
from vestige.papers.mosbach2020.claims import ATTENTION, PERPLEXITY, PROBES, STATEMENTS
from vestige.papers.opening import open_page
from vestige.papers.paper import Paper, Section
from vestige.papers.published import ALBERT, BERT_CASED, ROBERTA

PAPER = Paper(
    name="mosbach2020",
    cite="Mosbach, Khokhlova, Hedderich and Klakow 2020, On the Interplay Between Fine-tuning and Sentence-level "
    "Probing for Linguistic Knowledge in Pre-trained Transformers (Findings of EMNLP)",
    title="Sentence-level knowledge, attention and the language model of {models} (after Mosbach et al. 2020)",
    question="Does tuning add or remove sentence-level knowledge, or does it only move attention and break the "
    "language model?",
    setting="The paper studies BERT, RoBERTa and ALBERT, tuned on the whole training sets of CoLA, SST-2, RTE and "
    "SQuAD in five runs each, with the probing sets of SentEval: shifted bigrams, inverted coordinations and odd "
    "words.",
    models=("bert-base-cased", "roberta-base", "albert-base-v1"),
    opening=open_page,
    statements=STATEMENTS,
    sections=(
        Section("## The tuned models", tables.tuned),
        Section("## The probed sentences", tables.probing_sets, PROBES),
        Section("## Probing the base model (Figure 1)", tables.base, PROBES),
        Section("## How tuning changes what probes find", tables.groups, PROBES),
        Section("## Attention of [CLS] (Figure 2)", tables.attention, ATTENTION),
        Section("## The language model (Figure 3)", tables.perplexity, PERPLEXITY),
    ),
    originals=(BERT_CASED, ROBERTA, ALBERT),
    sizes={"cola": 8551, "sst2": 67349, "squad": 87599, "senteval_bigram_shift": 100000},
    items_of=("sentence_probe",),
)
