"""Content hashes: equal content, equal names; anything else, other names."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from vestige.digest import digest_chunks, digest_json, sha256_of_file


def test_the_order_of_keys_plays_no_role_and_that_of_items_does():
    assert digest_json({"a": 1, "b": [1, 2]}) == digest_json({"b": [1, 2], "a": 1})
    assert digest_json([1, 2]) != digest_json([2, 1])


@given(st.lists(st.binary(max_size=4), max_size=5), st.lists(st.binary(max_size=4), max_size=5))
def test_where_a_chunk_ends_matters(one, other):
    assert (digest_chunks(one) == digest_chunks(other)) == (one == other)


def test_a_file_has_the_hash_that_sha256sum_prints(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert sha256_of_file(tmp_path / "file") == hashlib.sha256(b"abc").hexdigest()
