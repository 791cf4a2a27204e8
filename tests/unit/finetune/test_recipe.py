"""Recipes: those of the papers hold the papers' values, and mistakes in one are named."""

from dataclasses import asdict, replace

import pytest
from pydantic import TypeAdapter

from vestige.digest import digest_json
from vestige.errors import ModelError
from vestige.finetune.recipe import Lora, Recipe, load_recipe, make_recipe, recipes


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_loads_and_says_what_it_is_for(name):
    recipe = load_recipe(name)
    assert recipe.name == name and recipe.levels


def test_every_task_of_every_paper_has_one():
    assert set(recipes()) == {
        *(f"mosbach2020_{task}" for task in ("cola", "sst2", "rte", "squad")),
        *(f"merchant2020_{task}" for task in ("mnli", "squad", "parsing")),
        *(f"durrani2021_{task}" for task in ("sst2", "mnli", "qnli", "rte", "mrpc", "stsb")),
    }


def test_mosbachs_table_3():
    recipe = load_recipe("mosbach2020_cola")
    assert (recipe.rate, recipe.epochs, recipe.batch, recipe.warmup, recipe.schedule) == (2e-5, 3, 32, 0.1, "constant")
    assert (recipe.decay, recipe.betas, recipe.epsilon, recipe.clip) == (0.01, (0.9, 0.99), 1e-8, 1.0)
    assert (recipe.dropout, recipe.pooler) == (0.1, "fresh")
    assert load_recipe("mosbach2020_sst2").epochs == 1
    squad = load_recipe("mosbach2020_squad")
    assert (squad.max_tokens, squad.stride) == (384, 128)


def test_merchants_parser():
    recipe = load_recipe("merchant2020_parsing")
    assert (recipe.rate, recipe.warmup, recipe.epochs, recipe.decay) == (3e-5, 0.1, 20, 0.0)


def test_a_value_can_be_changed():
    assert load_recipe("merchant2020_mnli", freeze=6).freeze == 6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"schedule": "cosine"}, "schedule is 'cosine'"),
        ({"pooling": "max"}, "pooling is 'max'"),
        ({"epochs": 0}, "epochs is 0"),
        ({"rate": -1.0}, "rate is -1.0"),
        ({"warmup": 2}, "warmup is 2"),
        ({"freeze": -1}, "freeze is -1"),
        ({"freeze": 1, "lora": True}, "freeze and lora at once"),
        ({"rate": "abc"}, "rate is 'abc'\n.*valid number"),
        ({"rate": "nan"}, "rate is 'nan'\n.*finite"),
        ({"decay": float("inf")}, "decay is inf\n.*finite"),
        ({"epochs": 1.5}, r"epochs is 1\.5\n.*integer"),
        ({"freeze": False}, "freeze is False\n.*a number"),
        ({"save_epochs": "maybe"}, "save_epochs is 'maybe'\n.*boolean"),
        ({"clip": -1}, "clip is -1\n.*or equal to 0"),
        ({"epsilon": 0}, "epsilon is 0\n.*greater than 0"),
        ({"dropout": 1}, "dropout is 1\n.*less than 1"),
        ({"betas": 0.9}, r"betas is 0\.9\n.*two numbers"),
        ({"betas": [0.9]}, r"betas is \[0\.9\]\n.*two numbers"),
        ({"betas": [0.9, 1.5]}, r"betas is \[0\.9, 1\.5\]\n.*below 1"),
        ({"levels": 5}, "levels is 5\n.*list of levels"),
        ({"lora": 5}, "lora is 5\n.*true, false or settings"),
        ({"lora": {"r": 0}}, r"lora\.r is 0\n.*or equal to 1"),
        ({"lora": {"rr": 4}}, "lora: unknown key 'rr'\n.*'r'"),
    ],
)
def test_wrong_values_are_named(values, message):
    with pytest.raises(ModelError, match=message):
        Recipe(**values)


def test_unknown_names_are_named_with_a_suggestion():
    with pytest.raises(ModelError, match="did you mean 'mosbach2020_cola'"):
        load_recipe("mosbach2020_colla")
    with pytest.raises(ModelError, match="no recipe is called 5"):
        load_recipe(5)
    with pytest.raises(ModelError, match="unknown key 'epoch'"):
        load_recipe("mosbach2020_cola", epoch=3)


def test_lora_by_one_flag_and_from_a_study_file():
    assert Recipe(lora=True).lora == Lora() and Recipe(lora=False).lora is None
    read = TypeAdapter(Recipe).validate_python({"lora": {"r": 4, "alpha": 8}, "betas": [0.9, 0.95]})
    assert read.lora == Lora(4, 8) and read.betas == (0.9, 0.95)
    assert TypeAdapter(Recipe).validate_python({"lora": True}).lora == Lora()


def test_the_name_of_a_recipe_plays_no_role_for_what_it_makes():
    assert load_recipe("mosbach2020_cola").identity() == load_recipe("mosbach2020_rte").identity()


def test_numbers_written_as_text_are_numbers_however_a_recipe_is_made():
    said = {"rate": "5e-5", "epochs": "2"}
    ways = [Recipe(**said), make_recipe(said), load_recipe("mosbach2020_sst2", **said), replace(Recipe(), **said)]
    assert {(recipe.rate, recipe.epochs) for recipe in ways} == {(5e-5, 2)}


def test_values_of_the_right_kind_are_kept_as_they_are_said_and_so_is_the_identity():
    said = {"decay": 0, "clip": 1, "betas": [0, 0.9], "lora": {"alpha": 8, "targets": ["query"]}}
    assert digest_json(asdict(make_recipe(said))) == "b91569922844ab7d057e"
    assert digest_json(load_recipe("mosbach2020_cola").identity()) == "9513c16b360a5962f6c4"
