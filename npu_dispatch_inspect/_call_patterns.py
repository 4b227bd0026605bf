# SPDX-License-Identifier: BSD-3-Clause
"""Does one call fit: its name, and conditions on where and with what it was made."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from attrs import fields, frozen

from npu_dispatch_inspect._globs import in_module, is_operator
from npu_dispatch_inspect._versions import holds, requirement
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import Phase, TensorSpec, tensors_in
from npu_dispatch_inspect.records.names import qualified
from npu_dispatch_inspect.records.values import DTYPE_ABBREVIATIONS

__all__ = [
    "CallPattern",
    "NamedCall",
    "as_phase",
    "call_name",
    "call_pattern",
    "overload_of",
    "tensors_of",
]

_FULL_DTYPES = {short: full for full, short in DTYPE_ABBREVIATIONS.items()}
_OTHER_DTYPES = re.compile(r"(q?u?int|bits|float|complex)\d\w*")
_DOTTED = re.compile(r"(\w+)\.(\w+)(?:\.(\w+))?")


@frozen(kw_only=True, repr=False)
class CallPattern:
    """What one call must be like; a field that is None asks for nothing."""

    name: str
    """The operator, or the glob or regular expression over it."""
    overload: str | None = None
    glob: bool = False
    regex: re.Pattern[str] | None = None
    phase: Phase | None = None
    module: str | None = None
    region: str | None = None
    dtype: str | None = None
    """In full: ``"float16"``."""
    device: str | None = None
    shape: tuple[Any, ...] | None = None
    where: Callable[[Any], bool] | None = None
    torch: str | None = None
    torch_npu: str | None = None

    @property
    def constrained(self) -> bool:
        """The name alone does not decide."""
        return any(
            each is not None
            for each in (
                self.phase,
                self.module,
                self.region,
                self.dtype,
                self.device,
                self.shape,
                self.where,
            )
        )

    @property
    def operator(self) -> str:
        """The name as written: operator, overload, glob or regular expression."""
        return self.name if self.overload is None else f"{self.name}.{self.overload}"

    def matches_name(self, name: str, overload: str) -> bool:
        """Whether an operator is meant."""
        if self.regex is not None:
            return bool(
                self.regex.fullmatch(name) or self.regex.fullmatch(f"{name}.{overload}")
            )
        if self.glob:
            return is_operator(name, overload, self.name)
        return name == self.name and self.overload in (None, overload)

    def matches(self, call: Any) -> bool:
        """Whether a call fits in name and conditions."""
        return self.matches_name(call.name, overload_of(call)) and self.meets(call)

    def meets(self, call: Any) -> bool:
        """Whether a call of a fitting name fulfils every condition."""
        return not self.unmet(call)

    def unmet(self, call: Any) -> tuple[str, ...]:
        """The conditions that a call of a fitting name does not fulfil, as text."""
        failed = []
        if self.phase is not None and getattr(call, "phase", None) is not self.phase:
            failed.append(f"phase {self.phase.value}")
        if self.module is not None and not in_module(
            getattr(call, "module", None), self.module
        ):
            failed.append(f"module {self.module}")
        if self.region is not None and not any(
            _fits(each, self.region) for each in getattr(call, "regions", ())
        ):
            failed.append(f"region {self.region}")
        if self._wants_tensor and not any(map(self._fits_tensor, tensors_of(call))):
            failed.append(self._tensor_text)
        if self.where is not None and not self.where(call):
            failed.append(f"where {_name_of(self.where)}")
        return tuple(failed)

    def applies(self, versions: Mapping[str, str | None]) -> bool:
        """Whether the pattern is there at all for these versions."""
        return all(
            wanted is None or holds(wanted, versions.get(package), package)
            for package, wanted in (
                ("torch", self.torch),
                ("torch_npu", self.torch_npu),
            )
        )

    @property
    def _wants_tensor(self) -> bool:
        return (self.dtype, self.device, self.shape) != (None, None, None)

    def _fits_tensor(self, tensor: TensorSpec) -> bool:
        return (
            self.dtype in (None, tensor.dtype)
            and (self.device is None or _fits(tensor.device, self.device))
            and (
                self.shape is None
                or (tensor.shape is not None and _fits_shape(tensor.shape, self.shape))
            )
        )

    @property
    def _tensor_text(self) -> str:
        text = (
            ""
            if self.dtype is None
            else DTYPE_ABBREVIATIONS.get(self.dtype, self.dtype)
        )
        if self.shape is not None:
            sizes = ("..." if each is ... else str(each or "?") for each in self.shape)
            text = f"{text or 'any'}[{', '.join(sizes)}]"
        if self.device is not None:
            text = f"{text} on {self.device}".strip()
        return text

    def __str__(self) -> str:
        """``aten::mm (backward, in mlp.*, f16[..., 8])``."""
        parts = []
        if self.phase is not None:
            parts.append(self.phase.value)
        if self.module is not None:
            parts.append(f"in {self.module}")
        if self.region is not None:
            parts.append(f"in region {self.region}")
        if self._wants_tensor:
            parts.append(self._tensor_text)
        if self.where is not None:
            parts.append(f"where {_name_of(self.where)}")
        text = f"/{self.operator}/" if self.regex is not None else self.operator
        return f"{text} ({', '.join(parts)})" if parts else text

    def __repr__(self) -> str:
        """``op('aten::mm', phase='backward')``."""
        name = repr(self.operator)
        parts = [f"re.compile({name})" if self.regex is not None else name]
        for each in fields(CallPattern):
            value = getattr(self, each.name)
            if each.name in ("name", "overload", "glob", "regex") or value is None:
                continue
            if each.name == "where":
                shown = _name_of(value)
            elif each.name == "shape":
                inner = ", ".join(
                    "..." if size is ... else repr(size) for size in value
                )
                shown = f"({inner},)" if len(value) == 1 else f"({inner})"
            else:
                shown = repr(value.value if isinstance(value, Phase) else value)
            parts.append(f"{each.name}={shown}")
        return f"op({', '.join(parts)})"


def call_pattern(
    name: object,
    *,
    phase: Phase | str | None = None,
    module: str | None = None,
    region: str | None = None,
    dtype: object = None,
    device: str | None = None,
    shape: tuple[Any, ...] | None = None,
    where: Callable[[Any], bool] | None = None,
    torch: str | None = None,
    torch_npu: str | None = None,
) -> CallPattern:
    """Check what a user wrote and put it into one form; see `patterns.op`."""
    operator, overload, regex = _operator(name)
    for word, text in (("module", module), ("region", region), ("device", device)):
        if text is not None and not isinstance(text, str):
            msg = f"{word}= takes a name or glob as text, not {text!r}."
            raise UsageError(msg)
    if where is not None and not callable(where):
        msg = f"where= takes a function of the record, not {where!r}."
        raise UsageError(msg)
    return CallPattern(
        name=operator,
        overload=overload,
        glob=regex is None
        and overload is None
        and any(each in operator for each in "*?["),
        regex=regex,
        phase=None if phase is None else as_phase(phase),
        module=module,
        region=region,
        dtype=None if dtype is None else _dtype(dtype),
        device=device,
        shape=None if shape is None else _shape(shape),
        where=where,
        torch=None if torch is None else requirement(torch),
        torch_npu=None if torch_npu is None else requirement(torch_npu),
    )


def overload_of(call: Any) -> str:
    """The overload of a call; what has none counts as the default one."""
    overload: str = getattr(call, "overload", None) or "default"
    return overload


def tensors_of(call: Any) -> tuple[TensorSpec, ...]:
    """Every tensor among the arguments and results of a call."""
    arguments = getattr(call, "inputs", None) or getattr(call, "arguments", None) or ()
    values = tuple(getattr(each, "value", each) for each in arguments)
    return tensors_in((values, getattr(call, "outputs", None) or ()))


@frozen(kw_only=True)
class NamedCall:
    """A call of which only the name is known."""

    index: int
    name: str
    overload: str = "default"

    @property
    def qualified_name(self) -> str:
        """With the overload, unless it is the default one."""
        return qualified(self.name, self.overload)


def call_name(value: object) -> tuple[str, str] | None:
    """Operator and overload of a name or a ``torch.ops`` object; None for others."""
    text = _spelled(value)
    if not text.strip() or (not isinstance(value, str) and "::" not in text):
        return None
    base, dot, overload = text.partition(".")
    if dot and "::" in base:
        return base, overload
    return text, "default"


def _spelled(value: object) -> str:
    """``"aten::sum.dim_IntList"``; empty text for what is no operator."""
    if isinstance(value, str):
        text = value
    elif type(value).__module__.split(".")[0] == "torch":
        # torch.ops.aten.sum and torch.ops.aten.sum.dim_IntList print as their names.
        text = str(value)
    else:
        return ""
    dotted = _DOTTED.fullmatch(text)
    if dotted is not None:
        overload = f".{dotted[3]}" if dotted[3] else ""
        return f"{dotted[1]}::{dotted[2]}{overload}"
    return text


def _operator(name: object) -> tuple[str, str | None, re.Pattern[str] | None]:
    """Name, overload, regular expression."""
    if isinstance(name, re.Pattern):
        if not isinstance(name.pattern, str):
            msg = "A regular expression over names is one of text, not of bytes."
            raise UsageError(msg)
        return name.pattern, None, name
    found = call_name(name)
    if found is None:
        msg = (
            f"{name!r} is no operator: write its name ('aten::addmm'), a glob "
            f"('npu::*'), re.compile(...), torch.ops.aten.addmm, or op(...)."
        )
        raise UsageError(msg)
    text = _spelled(name)
    if any(each in text for each in "*?["):
        return text, None, None
    return found[0], found[1] if "." in text else None, None


def as_phase(phase: Phase | str) -> Phase:
    """A phase from its word.

    Raises:
        UsageError: there is no such phase.
    """
    try:
        return Phase(phase)
    except ValueError:
        words = ", ".join(repr(each.value) for each in Phase)
        msg = f"phase= is one of {words}, not {phase!r}."
        raise UsageError(msg) from None


def _dtype(dtype: object) -> str:
    text = str(dtype).removeprefix("torch.")
    text = _FULL_DTYPES.get(text, text)
    if text in DTYPE_ABBREVIATIONS or _OTHER_DTYPES.fullmatch(text):
        return text
    near = difflib.get_close_matches(text, [*_FULL_DTYPES, *DTYPE_ABBREVIATIONS], n=2)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    msg = f"dtype= is written as f16, float16 or torch.float16, not {dtype!r}{hint}."
    raise UsageError(msg)


def _shape(shape: object) -> tuple[Any, ...]:
    if not isinstance(shape, (tuple, list)) or not all(
        each is ...
        or each is None
        or isinstance(each, str)
        or (isinstance(each, int) and not isinstance(each, bool))
        for each in shape
    ):
        msg = (
            f"shape= takes a tuple of sizes, None (any size) and ... (any number of "
            f"sizes), not {shape!r}."
        )
        raise UsageError(msg)
    return tuple(shape)


def _fits(text: str | None, pattern: str) -> bool:
    return text is not None and fnmatchcase(text, pattern)


def _fits_shape(shape: tuple[int | str, ...], wanted: tuple[Any, ...]) -> bool:
    if not wanted:
        return not shape
    if wanted[0] is ...:
        return any(
            _fits_shape(shape[start:], wanted[1:]) for start in range(len(shape) + 1)
        )
    return (
        bool(shape)
        and wanted[0] in (None, shape[0])
        and _fits_shape(shape[1:], wanted[1:])
    )


def _name_of(function: Callable[..., Any]) -> str:
    name: str = getattr(function, "__qualname__", type(function).__name__)
    return name.rpartition("<locals>.")[2]
