"""The biaffine head: it learns trees by heart, every parameter takes part, padding does not matter."""

from copy import deepcopy

import numpy as np
import pytest
import tiny
import torch
from torch.nn.functional import cross_entropy, leaky_relu, log_softmax

from vestige.errors import AnalysisError, CorpusError, ModelError
from vestige.finetune.parser import ParserHead

WIDTH, LABELS = 12, 5


def head(**sizes) -> ParserHead:
    torch.manual_seed(0)
    return ParserHead(WIDTH, LABELS, **{"arc": 16, "label": 8, **sizes})


def random_tree(count: int, rng: np.random.Generator) -> np.ndarray:
    """Words in random order, each hung from an earlier one; the first from the root."""
    order, heads = rng.permutation(count), np.zeros(count, dtype=int)
    for place in range(1, count):
        heads[order[place]] = order[rng.integers(place)] + 1
    return heads


def batch(lengths=(7, 1, 4, 2), seed=0, width=WIDTH):
    rng = np.random.default_rng(seed)
    longest = max(lengths)
    words = torch.tensor(rng.normal(size=(len(lengths), longest, width)), dtype=torch.float32)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    heads, labels = torch.full(mask.shape, -1), torch.full(mask.shape, -1)
    for row, count in enumerate(lengths):
        heads[row, :count] = torch.tensor(random_tree(count, rng))
        labels[row, :count] = torch.tensor(rng.integers(0, LABELS, count))
    return words, mask, heads, labels


def scores_by_hand(model: ParserHead, sentence: torch.Tensor):
    """Arc and label scores of one sentence, arc by arc."""
    model = deepcopy(model).requires_grad_(False)
    rows = torch.cat([model.root[None], sentence])

    def view(name):
        linear = getattr(model, name).map
        return leaky_relu(rows @ linear.weight.T + linear.bias, 0.1)

    heads, deps, label_heads, label_deps = map(view, ("arc_head", "arc_dependent", "label_head", "label_dependent"))
    count, one = len(sentence), torch.ones(1)
    arcs, labels = torch.full((count, count + 1), -torch.inf), torch.zeros(count, count + 1, LABELS)
    for word in range(count):
        for by in range(count + 1):
            if by != word + 1:
                arcs[word, by] = deps[word + 1] @ model.arcs[:-1] @ heads[by] + model.arcs[-1] @ heads[by]
            dep, top = torch.cat([label_deps[word + 1], one]), torch.cat([label_heads[by], one])
            for label in range(LABELS):
                labels[word, by, label] = dep @ model.labels[label] @ top
    return arcs, labels


class TestLoss:
    def test_is_that_of_the_formulas(self):
        model = head().eval()
        words, mask, heads, labels = batch()
        of_heads, of_labels = [], []
        for row, count in enumerate(mask.sum(1).tolist()):
            arcs, names = scores_by_hand(model, words[row, :count])
            gold = heads[row, :count]
            of_heads.append(-log_softmax(arcs, 1)[torch.arange(count), gold])
            of_labels.append(cross_entropy(names[torch.arange(count), gold], labels[row, :count], reduction="none"))
        expected = torch.cat(of_heads).mean() + torch.cat(of_labels).mean()
        assert torch.allclose(model.loss(words, mask, heads, labels), expected, atol=1e-5)

    def test_padding_does_not_matter(self):
        model = head().eval()
        words, mask, heads, labels = batch()
        expected = model.loss(words, mask, heads, labels)
        words[~mask], heads[~mask], labels[~mask] = torch.nan, 3, 99
        assert torch.allclose(model.loss(words, mask, heads, labels), expected)
        more = [torch.cat([given, given[:, :2]], 1) for given in (words, mask, heads, labels)]
        more[1][:, -2:] = False
        assert torch.allclose(model.loss(*more), expected)

    def test_words_without_a_head_do_not_count(self):
        model = head().eval()
        words, mask, heads, labels = batch((4,))
        rows = [model.loss(words, mask, heads.where(torch.arange(4) == word, -1), labels) for word in range(4)]
        assert torch.allclose(torch.stack(rows).mean(), model.loss(words, mask, heads, labels))

    def test_dropout_is_of_units_and_not_of_words(self):
        model = head(arc=300, dropout=0.5)
        found = model.arc_head(torch.ones(2, 6, WIDTH))
        assert all(torch.equal(found[0, 0], found[0, word]) for word in range(6))
        assert not torch.equal(found[0], found[1]) and 0.3 < (found == 0).float().mean() < 0.7

    def test_gradient_reaches_every_parameter(self):
        model = head()
        words, *rest = batch()
        words[~rest[0]] = torch.nan
        words.requires_grad_()
        model.loss(words, *rest).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
            assert torch.isfinite(parameter.grad).all()
        assert words.grad[rest[0]].abs().sum(-1).gt(0).all() and not words.grad[~rest[0]].any()

    def test_gradient_reaches_a_model_below(self):
        below = tiny.model("bert").train()
        model = ParserHead(32, LABELS, arc=16, label=8)
        ids = torch.tensor([[5, 9, 11, 7], [8, 5, 10, 0]])
        _, mask, heads, labels = batch((4, 3))
        model.loss(below(ids, attention_mask=mask.long()).last_hidden_state, mask, heads, labels).backward()
        idle = {name for name, p in (*below.named_parameters(), *model.named_parameters()) if p.grad is None}
        assert idle == {"pooler.dense.weight", "pooler.dense.bias"}

    def test_untrained_it_knows_nothing(self):
        """Each of forty words has forty possible heads."""
        torch.manual_seed(0)
        words, mask, heads, _ = batch((40, 40), width=768)
        labels = torch.arange(80).reshape(2, 40) % 37
        with torch.no_grad():
            found = float(ParserHead(768, 37).loss(words, mask, heads, labels))
        assert found == pytest.approx(np.log(40) + np.log(37), rel=0.03)

    def test_sizes(self):
        counts = {name: p.numel() for name, p in ParserHead(768, 37).named_parameters()}
        assert counts["arcs"] == 501 * 500 and counts["labels"] == 37 * 101 * 101 and counts["root"] == 768
        assert sum(counts.values()) == 768 + 2 * 769 * 500 + 2 * 769 * 100 + 501 * 500 + 37 * 101 * 101


class TestDecode:
    def test_a_few_sentences_are_learned_by_heart(self):
        model = head(arc=64, label=32, dropout=0.1)
        words, mask, heads, labels = batch((9, 1, 6, 12, 2))
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        model.train()
        for _ in range(150):
            optimiser.zero_grad()
            loss = model.loss(words, mask, heads, labels)
            loss.backward()
            optimiser.step()
        for row, (tree, names) in enumerate(model.decode(words, mask)):
            count = int(mask[row].sum())
            assert tree.tolist() == heads[row, :count].tolist() and names.tolist() == labels[row, :count].tolist()
        assert model.eval().loss(words, mask, heads, labels) < 0.02

    def test_the_tree_is_the_best_under_the_scores(self):
        """Of three words, all trees with one root word compared by hand."""
        model = head().eval()
        words, mask, _, _ = batch((3,), seed=3)
        arcs, names = scores_by_hand(model, words[0])
        trees = [(0, 1, 1), (0, 1, 2), (0, 3, 1), (2, 0, 2), (2, 0, 1), (3, 0, 2), (3, 3, 0), (2, 3, 0), (3, 1, 0)]
        best = max(trees, key=lambda tree: float(sum(arcs[word, by] for word, by in enumerate(tree))))
        ((tree, found),) = model.decode(words, mask)
        assert tuple(tree) == best
        assert found.tolist() == [int(names[word, by].argmax()) for word, by in enumerate(best)]

    def test_one_word_from_the_root_unless_told_otherwise(self):
        model = head().eval()
        with torch.no_grad():
            model.arc_head.map.weight.zero_()
            model.arc_head.map.bias.zero_()
            model.arc_head.map.weight[0] = 100 * model.root
            model.arcs.zero_()
            model.arcs[-1, 0] = 1.0  # only the root has a score
        words, mask, _, _ = batch((5, 3))
        words *= 1e-3
        assert [(tree == 0).sum() for tree, _ in model.decode(words, mask)] == [1, 1]
        assert [(tree == 0).sum() for tree, _ in model.decode(words, mask, single_root=False)] == [5, 3]

    def test_each_sentence_as_alone_and_without_dropout(self):
        model = head().train()
        words, mask, _, _ = batch((6, 1, 3))
        words[~mask] = torch.nan
        together = model.decode(words, mask)
        assert model.training
        for row, count in enumerate((6, 1, 3)):
            ((tree, names),) = model.decode(words[row : row + 1, :count], mask[row : row + 1, :count])
            assert np.array_equal(tree, together[row][0]) and np.array_equal(names, together[row][1])
            assert len(tree) == len(names) == count

    def test_a_sentence_without_words(self):
        words, mask, _, _ = batch((2, 3))
        mask[0] = False
        empty, full = head().decode(words, mask)
        assert [len(part) for part in (*empty, *full)] == [0, 0, 3, 3]

    def test_half_precision(self):
        words, mask, heads, labels = batch()
        model = head().eval()
        assert model.loss(words.bfloat16(), mask, heads, labels).dtype == torch.float32
        model.decode(words.half(), mask)


class TestErrors:
    def test_vectors_that_are_not_numbers(self):
        words, mask, _, _ = batch()
        words[0, 1, 0] = torch.nan
        with pytest.raises(AnalysisError, match="scores of arcs are not finite"):
            head().decode(words, mask)

    @pytest.mark.parametrize("wrong", [5, 2])
    def test_heads_that_are_not_there(self, wrong):
        words, mask, heads, labels = batch((7, 4))
        heads[1, 1] = wrong
        with pytest.raises(
            CorpusError, match=f"sentence 1 of the batch has 4 words, and the head of word 2 is {wrong}"
        ):
            head().loss(words, mask, heads, labels)

    def test_labels_that_are_not_there(self):
        words, mask, heads, labels = batch()
        labels[0, 0] = LABELS
        with pytest.raises(CorpusError, match="labels 0 to 4, found 5"):
            head().loss(words, mask, heads, labels)

    def test_no_heads(self):
        words, mask, heads, labels = batch()
        with pytest.raises(CorpusError, match="no word of the batch"):
            head().loss(words, mask, torch.full_like(heads, -1), labels)

    def test_padding_on_the_left(self):
        words, mask, heads, labels = batch()
        for use in (lambda m: head().decode(words, m), lambda m: head().loss(words, m, heads, labels)):
            with pytest.raises(ModelError, match="padding before words"):
                use(mask.flip(1))

    def test_another_width(self):
        with pytest.raises(ModelError, match=r"reads \(sentences, words, 12\), found \(4, 7, 9\)"):
            head().decode(*batch(width=9)[:2])
