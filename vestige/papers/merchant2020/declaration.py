"""The paper as a declaration; its Figures 3 and 4 are the study `merchant2020_depth`."""

from vestige.papers.merchant2020 import tables, used
from vestige.papers.merchant2020.claims import CODES, EDGE, SIMILARITY, STATEMENTS, TREES
from vestige.papers.opening import open_page
from vestige.papers.paper import Paper, Section
from vestige.papers.published import BERT_UNCASED

CITE = (
    "Merchant, Rahimtoroghi, Pavlick and Tenney 2020, What Happens To BERT Embeddings During Fine-tuning? (BlackboxNLP)"
)

PAPER = Paper(
    name="merchant2020",
    cite=CITE,
    title="What fine-tuning does to syntax and semantics in {models} (after Merchant et al. 2020)",
    question="What do edge probes, structural probes, description lengths, representational similarity and erasure "
    "find before and after tuning on inference, question answering and dependency parsing?",
    setting="The paper tunes BERT on the whole training sets of MNLI, SQuAD 1.1 and the English part of CoNLL 2017's "
    "parsing task, and probes it with OntoNotes and others. Freezing and truncation (Figures 3 and 4) are a study of "
    "their own, `merchant2020_depth`.",
    models=("bert-base-uncased",),
    opening=open_page,
    statements=STATEMENTS,
    sections=(
        Section("## The tuned models", tables.tuned),
        Section("## Edge probes (Table 1)", tables.edges, EDGE),
        Section("## Structural probes (Figure 1)", tables.trees, TREES),
        Section("## Similarity to the base model (Figures 2 and 5)", tables.similarity, SIMILARITY),
        Section("## Description length (appendix B)", tables.codes, CODES),
        Section("## Is it still used?", used.write, ("erasure",)),
    ),
    originals=(BERT_UNCASED,),
    sizes={"mnli": 392702, "squad": 87599, "pos": 115812},
)
