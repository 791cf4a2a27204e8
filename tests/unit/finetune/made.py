"""Small tasks of every level, made of the tiny tokenizers' own sentences: a model can learn them in seconds."""

import tiny

from vestige.corpus.types import Corpus, Sentence, Span
from vestige.finetune.recipe import Recipe

QUICK = Recipe(rate=3e-3, epochs=6, batch=8, save_epochs=False)
THOROUGH = Recipe(rate=3e-3, epochs=8, batch=4, dropout=0.0, save_epochs=False)

FOX, MUSEUM = tiny.TEXT[0].split(), tiny.TEXT[1].split()


def opinions(labels=("good", "bad"), level="sentence", count=32):
    """Sentences whose label is whether they speak of the fox or of the museum."""
    lines = [FOX, MUSEUM]
    made = [
        Sentence(f"s{i}", tuple(lines[i % 2][: 5 + i % 4]), annotations={"opinion": labels[i % len(labels)]})
        for i in range(count)
    ]
    return corpus("opinions", made, "opinion", level)


def pairs(labels=("different", "same"), name="pairs"):
    """Pairs that are about the same thing or not; the label may be a number."""
    lines = [FOX, MUSEUM]
    made = [
        Sentence(f"p{i}", tuple(lines[i % 2][: 4 + i % 3]), tuple(lines[i // 2 % 2][:4]),
                 {name: labels[i % 2 == i // 2 % 2]})
        for i in range(32)
    ]  # fmt: skip
    return corpus("pairs", made, name, "sentence_pair")


def words():
    """Whether a word is long, short, or no word at all."""

    def label(word):
        return "sign" if not word.isalpha() else "long" if len(word) > 3 else "short"

    made = [
        Sentence(f"w{i}", tuple(words), annotations={"size": tuple(map(label, words))})
        for i in range(24)
        for words in [tiny.TEXT[i % 6].split()[i % 3 :][:9]]
    ]
    return corpus("words", made, "size", "token")


def questions(answered=True):
    """What is asked for is the word before "over" or before "opened"."""
    made = []
    for i in range(16):
        start = i % 3
        text = [" ".join(FOX[start:]), " ".join(MUSEUM[start % 2 :])][i % 2]
        answer = ["jump", "Ostermark"][i % 2]
        given = answered or i % 4 < 2
        at = text.index(answer)
        first = len(text[:at].split())
        question = ("did it jump ?", "where did it open ?")[i % 2] if given else "who came ?"
        asked = question.split()
        spans = (Span(len(asked) + first, len(asked) + first + 1, ("answer",)),) if given else ()
        annotations = {
            "answer": spans,
            "answer_texts": (answer,) if given else (),
            "answer_starts": (at,) if given else (),
            "question": question,
            "context": text,
        }
        made.append(Sentence(f"q{i}", tuple(asked), tuple(text.split()), annotations))
    return corpus("questions", made, "answer", "span")


def trees():
    """Everything hangs on the first word."""
    made = []
    for i in range(16):
        words = tuple(tiny.TEXT[i % 6].split()[: 5 + i % 4])
        heads = (0,) + (1,) * (len(words) - 1)
        relations = tuple(
            "root" if not h else "dep:word" if w.isalpha() else "punct" for w, h in zip(words, heads, strict=True)
        )
        made.append(Sentence(f"t{i}", words, annotations={"head": heads, "deprel": relations}))
    return corpus("trees", made, "head", "tree")


def corpus(name, sentences, task, level):
    return Corpus(name, {"train": tuple(sentences), "dev": tuple(sentences[:8])}, {task: level}).task(task)
