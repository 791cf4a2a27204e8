"""Every cell of docs/families.md: what each family of models gives, against transformers itself."""

import families
import pytest

from vestige.corpus.load import load_corpus
from vestige.models.encoders.huggingface import TOLERANCE


@pytest.fixture(scope="module")
def sentences():
    return families.mixed_lengths(load_corpus("treebank")["test"])


@pytest.mark.parametrize("row", families.ROWS)
def test_hidden_states_are_those_of_transformers(row, sentences):
    assert families.hidden_state_gap(row, sentences) <= TOLERANCE
    assert not families.encoder(row).alone


@pytest.mark.parametrize("row", families.ROWS)
def test_every_word_of_ewt_has_a_token(row, data):
    covered, words = families.words_covered(row, load_ewt(data))
    assert covered == words == 25094


@pytest.mark.parametrize("name", families.CAPABILITIES)
@pytest.mark.parametrize("row", families.ROWS)
def test_the_family_can_do_it(row, name, sentences):
    expected = (row, name) not in families.EXCEPTIONS
    assert families.CAPABILITIES[name](row, sentences[::3]) is expected


def load_ewt(data, _read=[]):  # noqa: B006 (read once)
    if not _read:
        _read.append(load_corpus({"test": data / "ud_ewt" / "en_ewt-ud-test.conllu"})["test"])
    return _read[0]
