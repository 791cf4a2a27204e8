"""The study as a declaration."""

from vestige.papers.merchant2020.declaration import CITE
from vestige.papers.merchant2020_depth import tables
from vestige.papers.merchant2020_depth.claims import FREEZING, STATEMENTS, TRUNCATION
from vestige.papers.opening import open_page
from vestige.papers.paper import Paper, Section
from vestige.papers.published import BERT_UNCASED

PAPER = Paper(
    name="merchant2020_depth",
    cite=CITE,
    title="How deep fine-tuning reaches in {models} (after Merchant et al. 2020, Figures 3 and 4)",
    question="How many blocks must be free to change, and how many are needed at all, for inference, question "
    "answering and parsing? A model is tuned for every number of frozen blocks, and for every number of blocks that "
    "are kept.",
    setting="The paper tunes BERT on the whole training sets of MNLI, SQuAD 1.1 and the English part of CoNLL 2017's "
    "parsing task. Intervals are over held-out examples; they do not cover another draw of the training examples. The "
    "other analyses of the paper are the study `merchant2020`.",
    models=("bert-base-uncased",),
    opening=open_page,
    statements=STATEMENTS,
    sections=(
        Section("## Figure 3: freezing", tables.freezing, FREEZING),
        Section("## Figure 4: truncation", tables.truncation, TRUNCATION),
    ),
    originals=(BERT_UNCASED,),
    sizes={"mnli": 392702, "squad": 87599},
)
