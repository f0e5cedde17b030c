"""Hypothesis strategies for every type of the vocabulary."""

from typing import Any

import msgspec
from hypothesis import strategies as st

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


ti = msgspec.inspect
SIMPLE: dict[type, st.SearchStrategy[Any]] = {
    ti.AnyType: plain,
    ti.NoneType: st.none(),
    ti.BoolType: st.booleans(),
    ti.IntType: st.integers(0, 2**53),
    ti.FloatType: st.floats(0, 1e9),
    ti.StrType: words,
    ti.BytesType: st.binary(max_size=8),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, for all types that the vocabulary uses."""
    info = kind if isinstance(kind, ti.Type) else ti.type_info(kind)
    match info:
        case ti.LiteralType(values=values):
            return st.sampled_from(values)
        case ti.VarTupleType(item_type=item):
            return st.lists(values_of(item), max_size=2).map(tuple)
        case ti.DictType(key_type=key, value_type=value):
            return st.dictionaries(values_of(key), values_of(value), max_size=2)
        case ti.UnionType(types=types):
            return st.one_of(*map(values_of, types))
        case ti.StructType(cls=cls, fields=fields):
            known = {field.name: values_of(field.type) for field in fields if field.name != "unknown_fields"}
            return st.fixed_dictionaries(known).map(lambda chosen: cls(**chosen))
    return SIMPLE[type(info)]
