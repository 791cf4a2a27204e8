"""The paper as a declaration."""

from vestige.papers.durrani2021 import tables
from vestige.papers.durrani2021.claims import LAYERS, NEURONS, PRUNING, STATEMENTS
from vestige.papers.opening import open_page
from vestige.papers.paper import Paper, Section
from vestige.papers.published import BERT_CASED, ROBERTA, XLNET

PAPER = Paper(
    name="durrani2021",
    cite="Durrani, Sajjad and Dalvi 2021, How transfer learning impacts linguistic knowledge in deep NLP models? "
    "(Findings of ACL)",
    title="What fine-tuning does to layers and neurons of {models} (after Durrani et al. 2021)",
    question="What does fine-tuning on GLUE tasks do to part of speech, chunks and semantic tags, layer by layer and "
    "neuron by neuron, and what do pruned models lose?",
    setting="The paper studies BERT, RoBERTa and XLNet, tuned on the whole training sets of six GLUE tasks; it states "
    "no settings of the tuning. Neurons are selected here by the same penalties for every model.",
    models=("bert-base-cased", "roberta-base", "xlnet-base-cased"),
    opening=open_page,
    statements=STATEMENTS,
    sections=(
        Section("## The tuned models", tables.tuned),
        Section("## Layers (Figures 1 and 4)", tables.layers, LAYERS),
        Section("## Neurons", tables.spread, NEURONS),
        Section("", tables.top_and_bottom, NEURONS),
        Section("", tables.minimal, NEURONS),
        Section("", tables.searched, NEURONS),
        Section("## Pruned models (Tables 2 and 6)", tables.pruning, PRUNING),
    ),
    originals=(BERT_CASED, ROBERTA, XLNET),
    sizes={"ptb": 36557, "pmb_semtags": 36928, "conll2000": 8881},
)
