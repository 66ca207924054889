"""Quick dataclasses are what the standard ones are."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from typing import Any, get_type_hints

import pytest

from envguard.values import dataclass


def make(decorator: Any) -> Any:
    """A class with all that a field can say, made by a decorator."""

    @decorator(frozen=True, slots=True)
    class Demo:
        """A value."""

        name: str
        sizes: tuple[int, ...] = ()
        note: str = dataclasses.field(default="", compare=False)
        secret: str = dataclasses.field(default="", repr=False)

    Demo.__qualname__ = "Demo"
    return Demo


Quick, Standard = make(dataclass), make(dataclasses.dataclass)
ARGUMENTS: list[dict[str, Any]] = [
    {"name": "a"},
    {"name": "b"},
    {"name": "a", "sizes": (1, 2)},
    {"name": "a", "note": "said"},
    {"name": "a", "secret": "kept"},
]


@pytest.mark.parametrize("first", ARGUMENTS, ids=str)
@pytest.mark.parametrize("second", ARGUMENTS, ids=str)
def test_values_compare_as_the_standard_ones(first: Any, second: Any) -> None:
    is_equal = Quick(**first) == Quick(**second)
    assert is_equal is (Standard(**first) == Standard(**second))
    if is_equal:
        assert hash(Quick(**first)) == hash(Quick(**second))


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_values_are_printed_as_the_standard_ones(arguments: Any) -> None:
    assert repr(Quick(**arguments)) == repr(Standard(**arguments))


def test_values_of_two_classes_differ() -> None:
    assert Quick("a") != Standard("a")
    assert Quick("a") != "a"


def test_a_value_does_not_change() -> None:
    value = Quick("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.name
    assert not hasattr(value, "__dict__")


def test_a_value_is_a_dataclass() -> None:
    value = dataclasses.replace(Quick("a"), sizes=(3,))
    assert dataclasses.astuple(value) == ("a", (3,), "", "")
    assert [field.name for field in dataclasses.fields(value)] == list(Quick.__match_args__)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Quick()


@dataclass(frozen=True, slots=True)
class Empty:
    """No field at all."""


@dataclass(frozen=True)
class Worded:
    """Prints itself."""

    word: str

    def __repr__(self) -> str:
        return f"<{self.word}>"


@dataclass(frozen=True, slots=True)
class Counted:
    """Has every kind of field."""

    number: int
    words: dict[str, int] = dataclasses.field(default_factory=dict)
    by_name: int = dataclasses.field(default=2, kw_only=True)

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("less than nothing")


def test_the_first_value_is_made_as_the_others() -> None:
    first, second = Counted(1), Counted(1, by_name=2)
    assert first == second
    assert first.words == {}
    assert first.words is not second.words
    for _ in range(2):
        with pytest.raises(ValueError, match="less than nothing"):
            Counted(-1)
        with pytest.raises(TypeError, match=r"Counted\.__init__\(\) takes from 2 to 3 positional"):
            # One argument too many is what the test is about: the type checker sees it, too.
            Counted(1, {}, 3)  # type: ignore[call-arg]  # that is what is refused


def test_what_makes_a_value_is_known_before_the_first_one() -> None:
    assert inspect.signature(make(dataclass)) == inspect.signature(make(dataclasses.dataclass))
    hints = get_type_hints(Empty.__init__)
    assert hints == {"return": type(None)}
    assert get_type_hints(Counted.__init__)["words"] == dict[str, int]


def test_what_a_class_says_of_itself_stays() -> None:
    assert repr(Worded("a")) == "<a>"
    assert Worded("a") == Worded("a")
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())


def test_a_value_survives_pickling() -> None:
    for value in (Worded("a"), Counted(1, {"a": 1}, by_name=3)):
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own


def test_ordered_and_changeable_classes_are_the_standard_ones() -> None:
    @dataclass(frozen=True, order=True)
    class Ordered:
        number: int

    @dataclass
    class Changeable:
        number: int = 0

    assert Ordered(1) < Ordered(2)
    changed = Changeable()
    changed.number = 3
    assert changed == Changeable(3)
