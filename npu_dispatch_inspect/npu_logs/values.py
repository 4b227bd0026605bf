# SPDX-License-Identifier: BSD-3-Clause
"""Argument lines of the log become values.

torch_npu prints one line per argument, ``name: text``. The same lines come
again and again, and tensors that differ only in their address share everything
else, so both the whole line and the line without its address are remembered.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from npu_dispatch_inspect.npu_logs.grammar import KIND_AT
from npu_dispatch_inspect.npu_logs.sources import decoded
from npu_dispatch_inspect.records.logs import LoggedArgument
from npu_dispatch_inspect.records.values import Constant, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from npu_dispatch_inspect.records.values import Value

__all__ = ["ArgumentParser", "dtype_name"]

CACHE_SIZE: Final = 4_000
"""Whole lines that are remembered: those of the last moments."""

HEAD_CACHE_SIZE: Final = 20_000
"""Lines without addresses that are remembered: there are few different ones."""

CPP_DTYPES: Final = {
    "float": "float32",
    "double": "float64",
    "long int": "int64",
    "long": "int64",
    "long long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "char": "int8",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "short unsigned int": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "long unsigned int": "uint64",
    "bool": "bool",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::complex<c10::Half>": "complex32",
    "c10::qint8": "qint8",
    "c10::quint8": "quint8",
    "c10::qint32": "qint32",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu",
    "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2",
}
"""Demangled C++ type names, as tensors print them."""

ENUM_DTYPES: Final = {
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Half": "float16",
    "Float": "float32",
    "Double": "float64",
    "ComplexHalf": "complex32",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Bool": "bool",
    "QInt8": "qint8",
    "QUInt8": "quint8",
    "QInt32": "qint32",
    "BFloat16": "bfloat16",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
    "Float8_e5m2": "float8_e5m2",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e5m2fnuz": "float8_e5m2fnuz",
    "Float8_e4m3fnuz": "float8_e4m3fnuz",
    "Float8_e8m0fnu": "float8_e8m0fnu",
    "Float4_e2m1fn_x2": "float4_e2m1fn_x2",
}
"""Names of c10::ScalarType."""

_TENSOR = re.compile(
    r"Tensor size: \[([^\]]*)\], stride: \[([^\]]*)\], offset: ([^,]+), "
    r"dtype: ([^,]+), device ID: (-?\d+)(?:, data_ptr: (.*))?"
)
_SCALAR_TENSOR = re.compile(
    r"(NPU|CPU) scalar (?:Tensor: (.*), \[ [^\]]*\]|Tensor\(capturing\)|(FakeTensor))"
    r", dtype: (.+)"
)
_LIST = re.compile(
    r"(.+?) size: (\d+), (?:first \d+ )?elements: \[?([^\]]*)\]?"
    r"(?:, dtype for first element: (\w+))?"
)
_TENSOR_LIST = re.compile(r"TensorList size: (\d+), first tensor of tensorlist: (.*)")
_SCALAR = re.compile(r"Scalar: (.*), type: (\w+)")
_PLAIN = re.compile(
    r"(int|u?int(?:8|16|32|64)_t|bool|float|double|char\*|ScalarType): (.*)", re.DOTALL
)
_COMPLEX = re.compile(r"\((.+),(.+)\)")


class _Value:
    """The parts of a `LoggedArgument` that its text decides."""

    __slots__ = ("data_ptr", "kind", "known", "length", "shown", "value")

    def __init__(
        self,
        kind: str,
        value: Value,
        *,
        data_ptr: int | None = None,
        length: int | None = None,
        shown: Value = None,
        known: bool = True,
    ) -> None:
        self.kind = kind
        self.value = value
        self.data_ptr = data_ptr
        self.length = length
        self.shown = shown
        self.known = known


class ArgumentParser:
    """Turns argument lines into arguments and remembers what it has seen."""

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self._lines: dict[str, LoggedArgument] = {}
        self._heads: dict[str, tuple[str, _Value]] = {}

    def parse(self, line: str) -> LoggedArgument:
        """The argument of one line, given as Latin-1 without its line end."""
        known = self._lines.get(line)
        if known is not None:
            return known
        if len(self._lines) >= CACHE_SIZE:
            self._lines.clear()
        head, mark, pointer = line.rpartition(", data_ptr: 0x")
        argument = self._with_address(head, pointer) if mark else None
        if argument is None:
            name, value = _split(decoded(line))
            argument = _argument(name, value, value.data_ptr)
        self._lines[line] = argument
        return argument

    def _with_address(self, head: str, pointer: str) -> LoggedArgument | None:
        try:
            address = int(pointer, 16)
        except ValueError:
            return None
        split = self._heads.get(head)
        if split is None:
            if len(self._heads) >= HEAD_CACHE_SIZE:
                self._heads.clear()
            split = self._heads[head] = _split(decoded(head))
        return _argument(split[0], split[1], address)


def _argument(name: str, value: _Value, address: int | None) -> LoggedArgument:
    return LoggedArgument(
        name=name,
        value=value.value,
        kind=value.kind,
        data_ptr=address,
        length=value.length,
        shown=value.shown,
        known=value.known,
    )


def _split(line: str) -> tuple[str, _Value]:
    found = KIND_AT.match(line)
    if found is None:
        name, _, rest = line.partition(": ")
        return name, _not_understood(rest)
    return found[1], parse_value(line[found.end() :])


def _not_understood(text: str) -> _Value:
    return _Value("", Constant(kind="unparsed", text=text), known=False)


def parse_value(text: str) -> _Value:
    """The value of the text that follows the name of an argument."""
    try:
        for start, parse in _PARSERS:
            if text.startswith(start):
                return parse(text) or _not_understood(text)
        return _plain(text) or _list(text) or _not_understood(text)
    except ValueError:
        return _not_understood(text)


def dtype_name(word: str) -> str | None:
    """Name in torch of a dtype that the log spells as C++ does, None if unknown."""
    return CPP_DTYPES.get(word) or ENUM_DTYPES.get(word)


def _tensor(text: str) -> _Value | None:
    found = _TENSOR.fullmatch(text)
    if found is None:
        return None
    shape, stride, offset, word, device, pointer = found.groups()
    dtype = dtype_name(word)
    spec = TensorSpec(
        dtype=dtype or word,
        device="cpu" if device == "-1" else f"npu:{device}",
        shape=_sizes(shape),
        stride=_sizes(stride),
        offset=_size(offset),
        flags=("fake",) if pointer and "FakeTensor" in pointer else (),
        unknown=() if dtype else ("dtype",),
    )
    address = int(pointer, 16) if pointer and not spec.flags else None
    return _Value("Tensor", spec, data_ptr=address)


def _scalar_tensor(text: str) -> _Value | None:
    found = _SCALAR_TENSOR.fullmatch(text)
    if found is None:
        return None
    device, number, fake, word = found.groups()
    dtype = dtype_name(word)
    spec = TensorSpec(
        dtype=dtype or word,
        device=device.lower(),
        shape=(),
        stride=(),
        flags=("fake",) if fake else (),
        unknown=("offset",) if dtype else ("dtype", "offset"),
    )
    shown = None if number is None else _number(number, dtype or "")
    return _Value(f"{device} scalar Tensor", spec, shown=shown)


def _tensor_list(text: str) -> _Value | None:
    found = _TENSOR_LIST.fullmatch(text)
    if found is None:
        return None
    first = parse_value(found[2])
    return _Value(
        "TensorList",
        (first.value,),
        data_ptr=first.data_ptr,
        length=int(found[1]),
        shown=first.shown,
        known=first.known,
    )


def _list(text: str) -> _Value | None:
    found = _LIST.fullmatch(text)
    if found is None:
        return None
    kind, length, elements, word = found.groups()
    dtype = "bool" if "bool" in kind else dtype_name(word or "Long") or ""
    items = [each.strip() for each in elements.split(",")] if elements else []
    # Longer lists end in an ellipsis in some versions.
    items = [each for each in items if each.strip(".…")]
    if "," in elements and "(" in elements:
        items = [f"({each})" for each in re.findall(r"\(([^)]*)\)", elements)]
    value = tuple(_number(each, dtype) for each in items)
    return _Value(kind, value, length=int(length))


def _scalar(text: str) -> _Value | None:
    found = _SCALAR.fullmatch(text)
    if found is None:
        return None
    return _Value(
        f"Scalar {found[2]}", _number(found[1], dtype_name(found[2]) or found[2])
    )


def _plain(text: str) -> _Value | None:
    found = _PLAIN.fullmatch(text)
    if found is None:
        return None
    kind, rest = found.groups()
    if kind == "ScalarType":
        dtype = dtype_name(rest)
        return _Value(
            kind, Constant(kind="dtype", text=dtype or rest), known=dtype is not None
        )
    if kind == "char*":
        return _Value(kind, rest)
    if kind in ("int8_t", "uint8_t"):
        return _Value(kind, _character(rest))
    dtype = {"bool": "bool", "float": "float32", "double": "float64"}.get(kind, "int64")
    return _Value(kind, _number(rest, dtype))


def _character(raw: str) -> Value:
    """A small integer that was printed as the character of its code.

    Zero ends the C string, so an empty text is a zero.
    """
    if not raw:
        return 0
    code = raw.encode("utf-8", "surrogateescape")
    if len(code) == 1:
        return code[0] - 256 if code[0] > 127 else code[0]  # noqa: PLR2004 - signed
    return Constant(kind="unparsed", text=raw)


def _optional(text: str) -> _Value:
    return _Value(f"Optional {text.removeprefix('Optional None ')}", None)


def _empty(text: str) -> _Value:
    return _Value(text.removeprefix("Empty "), (), length=0)


def _undefined(text: str) -> _Value:
    del text
    return _Value("Undefined Tensor", None)


def _unprintable(text: str) -> _Value:
    return _Value("", Constant(kind="unknown", text=text), known=False)


_PARSERS: Final[tuple[tuple[str, Callable[[str], _Value | None]], ...]] = (
    ("Tensor size: ", _tensor),
    ("Scalar: ", _scalar),
    ("unknown dtype", _unprintable),
    ("Optional None ", _optional),
    ("Undefined Tensor!", _undefined),
    ("NPU scalar ", _scalar_tensor),
    ("CPU scalar ", _scalar_tensor),
    ("TensorList size: ", _tensor_list),
    ("Empty ", _empty),
    ("IntArrayRef size: ", _list),
)


def _sizes(text: str) -> tuple[int | str, ...]:
    return tuple(_size(each.strip()) for each in text.split(",")) if text else ()


def _size(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _number(text: str, dtype: str) -> Value:
    text = text.strip()
    if dtype == "bool":
        return _truth(text)
    if dtype.startswith(("int", "uint")):
        return int(text)
    if dtype.startswith("complex"):
        found = _COMPLEX.fullmatch(text)
        if found:
            return complex(float(found[1]), float(found[2]))
    return float(text)


def _truth(text: str) -> bool:
    if text.lower() not in ("0", "1", "false", "true"):
        msg = f"{text!r} is not a truth value"
        raise ValueError(msg)
    return text.lower() in ("1", "true")
