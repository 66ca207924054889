"""The part of YAML that files of pins use."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envguard.errors import InputError
from envguard.ingest.block_yaml import Scalar, parse_block_yaml

TEXT = """\
# head
name: train   # why
channels: [pytorch, "conda-forge"]
empty:
variables: {}
dependencies:
- python=3.10
- 'a # b'
- pip:
    - x==1
    - -e .
-
  deep: 1
text: |
  one
  two
"""


def test_maps_lists_and_scalars() -> None:
    assert parse_block_yaml(TEXT, "e.yml") == {
        "name": "train",
        "channels": ["pytorch", "conda-forge"],
        "empty": None,
        "variables": {},
        "dependencies": ["python=3.10", "a # b", {"pip": ["x==1", "-e ."]}, {"deep": "1"}],
        "text": "one\ntwo",
    }


def test_scalars_carry_their_line() -> None:
    node = parse_block_yaml(TEXT, "e.yml")
    assert isinstance(node, dict)
    listed = node["dependencies"]
    assert isinstance(listed, list)
    assert isinstance(listed[0], Scalar)
    assert listed[0].line == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x 1\n", "e.yml:1: '&x 1' is not read here"),
        ("a: *x\n", "e.yml:1"),
        ("a: !!python/object:os.system x\n", "e.yml:1"),
        ("a: {b: 1}\n", "e.yml:1"),
        ("a: 1\na: 2\n", "e.yml:2: a stands there twice"),
        ("a:\n\t- b\n", "e.yml:2: indented with a tab"),
        ("a:\n  b: 1\n c: 2\n", "e.yml:3: indented otherwise"),
        ("a: 'x\n", "e.yml:1: a quote is not closed"),
        ("a: [[1]]\n", "e.yml:1"),
        ("".join(f"{' ' * i}a:\n" for i in range(40)), "nested too deeply"),
        ("a: " + "x" * 30_000, "e.yml:1: more than a file of pins holds"),
    ],
)
def test_what_is_not_read_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_block_yaml(text, "e.yml")
    assert words in caught.value.message


@settings(deadline=None)
@given(st.text(alphabet="ab:- \n'\"#[]{}&*|\t,", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        parse_block_yaml(text, "e.yml")
