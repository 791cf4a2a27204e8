"""What must hold of patched models: nothing exchanged is the tuned model, everything is the base, and between them."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import tiny_lm
import torch
from scipy import stats

from vestige.analyses.patch_places import DIRECTIONS
from vestige.analyses.patching import Patching
from vestige.analyses.perplexity import Perplexity
from vestige.errors import AnalysisError
from vestige.measures.jackknife import jackknife_error
from vestige.measures.recovery import nothing_to_recover, recovered
from vestige.models.surgery.blocks import replace_blocks
from vestige.models.surgery.branches import answering, recording
from vestige.models.surgery.patching import Interpolation, Patch, Patcher
from vestige.models.surgery.unroll import find_parts, unroll
from vestige.models.tokens.masking import text_blocks

FAMILIES = ("bert", "roberta", "albert", "gpt2", "llama", "distilbert", "deberta", "modernbert")
LOSS = {"measures": ("loss",), "rate": 0.3}


def pair(family: str):
    """Two models, and a batch of text for them."""
    mine, theirs = (unroll(tiny_lm.whole(family, seed)).base_model for seed in (0, 1))
    encoder = tiny_lm.encoder(family)
    return mine, theirs, encoder.inputs(text_blocks(encoder, tiny_lm.SENTENCES, 24)[:2])


@torch.inference_mode()
def last(model, inputs) -> torch.Tensor:
    return model(**inputs).last_hidden_state


@pytest.mark.parametrize("family", (*FAMILIES, "xlnet"))
def test_nothing_patched_is_the_host_and_everything_is_the_donor(family):
    mine, theirs, inputs = pair(family)
    plain = [last(mine, inputs), last(theirs, inputs)]
    patcher = Patcher(mine, theirs)
    for host in (0, 1):
        every = tuple(range(patcher.depth + 1))
        changes = [Patch(host), Patch(host, "block", (patcher.depth,)), Patch(host, "block weights", every)]
        expected = [plain[host], plain[1 - host], plain[1 - host]]
        for change, states, wanted in zip(changes, patcher.states(changes, inputs), expected, strict=True):
            assert torch.equal(states, wanted), change
            assert torch.equal(patcher.output(change, **inputs).last_hidden_state, wanted), change
    assert torch.equal(last(mine, inputs), plain[0]) and torch.equal(last(theirs, inputs), plain[1])


@pytest.mark.parametrize("family", FAMILIES)
def test_all_branches_on_the_donors_embeddings_make_the_donors_states(family):
    """What runs through the blocks is the embeddings and what attention and MLP add to them, and norms between."""
    mine, theirs, inputs = pair(family)
    inside = zip(find_parts(mine).blocks.modules(), find_parts(theirs).blocks.modules(), strict=True)
    for one, other in inside:  # the same norms, so that branches are all that differs
        if "Norm" in type(one).__name__:
            one.load_state_dict(other.state_dict())
    _, norm = find_parts(mine).outside()
    same = replace_blocks(mine, theirs, [], embeddings=True)
    if norm:
        state = find_parts(same).stack.state_dict()
        for name, weight in find_parts(theirs).outside()[1].items():
            state[name].copy_(weight.data)
    patcher = Patcher(same, theirs)
    every = tuple(range(1, patcher.depth + 1))
    attention, mlp = (Patch(0, site, every) for site in ("attention", "mlp"))
    target, host = last(theirs, inputs), last(same, inputs)
    only = patcher.states([attention, mlp], inputs)
    assert not any(torch.allclose(states, target, atol=1e-3) for states in (*only, host))
    modules = {side: [*patcher._modules(side, "attention"), *patcher._modules(side, "mlp")] for side in (0, 1)}
    with torch.inference_mode():
        with recording(modules[1]) as calls:
            theirs(**inputs)
        with answering(modules[0], calls):
            torch.testing.assert_close(same(**inputs).last_hidden_state, target, atol=1e-5, rtol=1e-4)


def keep(kept: list, module, given, output) -> None:
    kept.append(output)


def put(kept: list, module, given, output):
    return kept[0]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("site", ["attention", "mlp"])
def test_one_branch_is_what_a_hook_by_hand_does(family, site):
    """Against transformers with a hook on the module that the family's own code names."""
    mine, theirs, inputs = pair(family)
    patcher = Patcher(mine, theirs)
    names = {
        "bert": ("attention.output.dense", "output.dense"), "roberta": ("attention.output.dense", "output.dense"),
        "deberta": ("attention.output.dense", "output.dense"),
        "albert": ("albert_layers.0.attention.dense", "albert_layers.0.ffn_output"), "gpt2": ("attn", "mlp"),
        "llama": ("self_attn", "mlp"), "distilbert": ("attention", "ffn"), "modernbert": ("attn", "mlp"),
    }  # fmt: skip
    name = names[family][site == "mlp"]
    for host, layer in ((0, 1), (0, 3), (1, 2)):
        models = [mine, theirs]
        blocks = [find_parts(model).blocks[layer - 1].get_submodule(name) for model in models]
        kept: list = []
        with torch.inference_mode():
            with blocks[1 - host].register_forward_hook(partial(keep, kept)):
                models[1 - host](**inputs)
            with blocks[host].register_forward_hook(partial(put, kept)):
                by_hand = models[host](**inputs).last_hidden_state
        (states,) = patcher.states([Patch(host, site, (layer,))], inputs)
        assert torch.equal(states, by_hand)
        assert not torch.allclose(states, last(models[host], inputs), atol=1e-4)


@pytest.mark.parametrize("family", (*FAMILIES, "xlnet"))
def test_interpolation_ends_at_the_models(family):
    mine, theirs, inputs = pair(family)
    plain = last(mine, inputs)
    patcher = Patcher(mine, theirs)
    base, middle, tuned = patcher.states([Interpolation(share) for share in (0.0, 0.5, 1.0)], inputs)
    assert torch.equal(tuned, plain) and torch.equal(base, last(theirs, inputs))
    built = unroll(tiny_lm.whole(family, 0)).base_model
    with torch.no_grad():
        for weight, other in zip(built.parameters(), theirs.parameters(), strict=True):
            weight.copy_((weight + other) / 2)
    torch.testing.assert_close(middle, last(built, inputs), atol=2e-4, rtol=1e-3)
    assert torch.equal(last(mine, inputs), plain)


def frame(outcome, metric: str) -> pd.DataFrame:
    rows = pd.DataFrame(outcome.rows)
    return rows[rows["metric"] == metric]


@pytest.mark.parametrize("family", ["bert", "gpt2", "albert", "xlnet"])
def test_patched_losses_are_those_of_the_replacement_sweep(family):
    """The last k blocks replaced by the base's: the tuned model's output of block L - k put into the base."""
    models = [tiny_lm.encoder(family, seed) for seed in (0, 1)]
    sentences = tiny_lm.SENTENCES if family != "xlnet" else tiny_lm.SHORT
    given = tiny_lm.inputs(*models, sentences=sentences)
    sweep = Perplexity(unit="sentence", resamples=5, single=(1, 2, 3), rate=0.3).run(given)
    found = frame(Patching(**LOSS).run(given), "loss_patched")
    losses = frame(sweep, "loss")
    last = losses[losses["axis"] == "last_replaced"].drop_duplicates("x").set_index("x")["value"]
    block = found[(found["subset"] == "block") & (found["subset2"] == DIRECTIONS["recovered"])].set_index("layer")[
        "value"
    ]
    for layer in range(4):
        assert block[layer] == pytest.approx(last[3 - layer], abs=1e-12)
    single = losses[losses["axis"] == "layer_replaced"].set_index("x")["value"]
    weights = found[(found["subset"] == "block weights") & (found["subset2"] == DIRECTIONS["kept"])].set_index("layer")[
        "value"
    ]
    assert [weights[layer] for layer in (1, 2, 3)] == pytest.approx([single[layer] for layer in (1, 2, 3)], abs=1e-12)


def learned(steps: int = 40):
    """A tiny BERT that has read the text a few times, so that another's states are clearly worse."""
    model = tiny_lm.encoder("bert", 1)
    batch = model.inputs(model.encode(tiny_lm.SENTENCES))
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    optimiser = torch.optim.Adam(model.head.parameters(), lr=3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        model.head(**batch, labels=labels).loss.backward()
        optimiser.step()
    return model


def test_shares_are_one_as_tuned_and_zero_as_the_base():
    found = Patching(**LOSS).run(tiny_lm.inputs(tiny_lm.encoder("bert"), learned()))
    kept, back = frame(found, "loss_kept"), frame(found, "loss_recovered")
    block = kept[(kept["subset"] == "block") & (kept["layer"] == 3)].iloc[0]
    assert (block["value"], block["low"], block["high"]) == pytest.approx((0, 0, 0), abs=1e-9)
    block = back[(back["subset"] == "block") & (back["layer"] == 3)].iloc[0]
    assert (block["value"], block["low"], block["high"]) == pytest.approx((1, 1, 1), abs=1e-9)
    along = back[back["axis"] == "g"].set_index("x")["value"]
    assert along[0.0] == pytest.approx(0, abs=1e-9) and along[1.0] == pytest.approx(1, abs=1e-9)
    levels = frame(found, "loss_patched").set_index(["subset", "subset2", "layer"])["value"]
    base, tuned = (frame(found, f"loss_{name}")["value"].item() for name in ("base", "tuned"))
    for row in kept.dropna(subset="layer").itertuples():
        expected = (levels[row.subset, DIRECTIONS["kept"], row.layer] - base) / (tuned - base)
        assert row.value == pytest.approx(expected) and row.low <= row.value <= row.high


def test_the_same_model_has_nothing_to_recover():
    found = Patching(**LOSS).run(tiny_lm.inputs(tiny_lm.encoder("bert"), tiny_lm.encoder("bert")))
    assert not len(frame(found, "loss_kept")) and not len(frame(found, "loss_recovered"))
    assert "no change to recover" in found.absent["loss_kept"]
    assert (frame(found, "loss_change")["value"] == 0).all()


def test_branches_that_are_no_modules_output_are_named():
    models = [tiny_lm.encoder("xlnet", seed) for seed in (0, 1)]
    given = tiny_lm.inputs(*models, sentences=tiny_lm.SHORT)
    found = Patching(**LOSS).run(given)
    (left,) = frame(found, "sites_left_out").itertuples()
    assert left.value == 2 and left.subset == "attention and mlp outputs"
    assert set(frame(found, "loss_patched")["subset"].dropna()) == {"block", "block weights"}
    with pytest.raises(AnalysisError, match="attention output of xlnet 0 is no module's output"):
        Patching(**LOSS, sites=("attention",)).run(given)


def replicates(rng, means, error: float, groups: int = 20, rho: float = 0.7) -> list[np.ndarray]:
    """Numbers of several models with a common error over sentences, and what they are without each group."""
    shared = rng.normal(size=groups)
    found = []
    for mean in means:
        of_group = mean + error * groups**0.5 * (rho**0.5 * shared + (1 - rho) ** 0.5 * rng.normal(size=groups))
        total = of_group.sum()
        found.append(np.array([total / groups, *((total - one) / (groups - 1) for one in of_group)]))
    return found


def test_fiellers_interval_covers_the_share():
    """95 % of intervals have the true share, however far it lies outside of 0 to 1, where there is a change at all."""
    covered, counted = 0, 0
    for seed in range(2000):
        share = [0.0, 0.4, 1.0, 1.6][seed % 4]
        base, tuned, patched = replicates(np.random.default_rng(seed), (0.5, 0.62, 0.5 + 0.12 * share), 0.02)
        if nothing_to_recover(base, tuned, 0.001):
            continue
        found = recovered(patched, base, tuned)
        counted += 1
        covered += found.low <= share <= found.high
    assert counted > 1900 and 0.93 <= covered / counted <= 0.97


def test_fiellers_ends_are_where_the_test_begins_to_reject():
    base, tuned, patched = replicates(np.random.default_rng(3), (0.5, 0.7, 0.58), 0.02)
    found = recovered(patched, base, tuned)
    for end in (found.low, found.high):
        gap = (patched - base) - end * (tuned - base)
        assert 2 * stats.t.sf(abs(gap[0]) / jackknife_error(gap[1:]), 19) == pytest.approx(0.05, abs=1e-6)


def test_no_share_is_given_of_a_change_that_may_be_none():
    """Of two models that do not differ, a share is given as often as the level of the test says."""
    given = 0
    for seed in range(400):
        base, tuned, _ = replicates(np.random.default_rng(seed), (0.5, 0.5, 0.5), 0.02)
        given += not nothing_to_recover(base, tuned, 1e-9)
    assert given / 400 <= 0.08
    base, tuned, _ = replicates(np.random.default_rng(0), (0.5, 0.503, 0.5), 1e-4)
    assert "differ by less than 0.01" in nothing_to_recover(base, tuned, 0.01)
    assert "fewer than 5" in nothing_to_recover(base[:1], tuned[:1], 0.01)
