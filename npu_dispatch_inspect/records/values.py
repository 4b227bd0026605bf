# SPDX-License-Identifier: BSD-3-Clause
"""Values as records: tensors, and the other things an operator is called with."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

__all__ = [
    "DTYPE_ABBREVIATIONS",
    "Argument",
    "Constant",
    "SourceLocation",
    "TensorSpec",
    "Value",
    "tensor_bytes",
]

DTYPE_ABBREVIATIONS: dict[str, str] = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "complex32": "c32",
    "complex64": "c64",
    "complex128": "c128",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "b8",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
    "float4_e2m1fn_x2": "f4e2m1fnx2",
}
"""torch's own short spellings; a dtype that is not here is written in full."""


@frozen(kw_only=True)
class TensorSpec:
    """What is known about one tensor at one moment, without its values.

    An attribute that could not be read (a nested tensor has no single shape, a
    sparse one no strides) is None and its name is in `unknown`: not known is
    not the same as empty.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.zeros(2, 3).t()
        >>> (spec,) = trace.find("aten::t")[0].outputs
        >>> spec.shape, spec.dtype, spec.device, spec.stride
        ((3, 2), 'float32', 'cpu', (1, 3))
        >>> str(spec)
        'f32[3, 2]'
    """

    dtype: str
    """torch's name without the prefix: ``"float32"``, ``"bfloat16"``."""
    device: str
    """``"cpu"``, ``"npu:0"``, ``"meta"``."""
    shape: tuple[int | str, ...] | None = None
    """Sizes in elements; a symbolic size is its expression as text (``"s0"``)."""
    stride: tuple[int | str, ...] | None = None
    """Steps in elements; None where the layout has none or they were not asked for."""
    offset: int | str | None = None
    """Storage offset in elements."""
    layout: str = "strided"
    """``"strided"``, ``"sparse_coo"``, ``"sparse_csr"``, ``"jagged"``, ..."""
    requires_grad: bool = False
    id: int | None = None
    """The same tensor has the same id within one trace; ids are never reused."""
    storage_id: int | None = None
    """Views of one storage share it; None where there is no storage."""
    subclass: str | None = None
    """The Python class where it is not torch.Tensor: ``"Parameter"``, ``"DTensor"``."""
    flags: tuple[str, ...] = ()
    """``"conj"``, ``"neg"``, ``"wrapped_number"``, ``"fake"``, ``"quantized"``, ..."""
    inner: tuple[Argument, ...] = ()
    """The tensors inside a wrapper subclass, by attribute name."""
    unknown: tuple[str, ...] = ()
    """Names of the fields above that this tensor would not tell."""

    @property
    def abbreviated_dtype(self) -> str:
        """``"f32"`` for float32; the full name where torch has no short one."""
        return DTYPE_ABBREVIATIONS.get(self.dtype, self.dtype)

    def __str__(self) -> str:
        """``f32[32, 128]``, as torch's own tools write it."""
        if self.shape is None:
            return f"{self.abbreviated_dtype}[?]"
        return f"{self.abbreviated_dtype}[{', '.join(map(str, self.shape))}]"


@frozen(kw_only=True)
class Constant:
    """A value that is neither a tensor nor a plain Python number or text.

    ``kind`` says what it was (``"dtype"``, ``"device"``, ``"layout"``,
    ``"memory_format"``, ``"generator"``, ``"symint"``, ``"torchbind"``,
    ``"callable"``, ``"object"``), ``text`` how torch writes it.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.zeros(2, dtype=torch.float64)
        >>> trace[0].argument("dtype")
        Constant(kind='dtype', text='float64')
    """

    kind: str
    text: str

    def __str__(self) -> str:
        """The text alone."""
        return self.text


Value: TypeAlias = "bool | int | float | complex | str | TensorSpec | Constant | tuple[Value, ...] | None"
"""What an argument or a result can be."""


@frozen(kw_only=True)
class Argument:
    """One argument under the name that the operator's schema gives it.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.zeros(2).add_(1)
        >>> first, second, alpha = trace[1].inputs
        >>> first.name, str(first.value), first.written
        ('self', 'f32[2]', True)
        >>> alpha.name, alpha.value, alpha.default
        ('alpha', 1, True)
    """

    name: str
    value: Value
    default: bool = False
    """The caller left it out; `value` is the schema's default."""
    written: bool = False
    """The schema says that the call writes to it (in-place, ``out=``)."""


@frozen(kw_only=True)
class SourceLocation:
    """A line of the user's program.

    Example:
        >>> from npu_dispatch_inspect import SourceLocation
        >>> str(SourceLocation(file="/home/me/model.py", line=33, function="forward"))
        '/home/me/model.py:33 in forward'
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """``file:line in function``."""
        return f"{self.file}:{self.line} in {self.function}"


def tensor_bytes(value: Value) -> int | None:
    """Bytes of a tensor's elements; None where a size or the dtype is not known."""
    if not isinstance(value, TensorSpec) or value.shape is None:
        return None
    size = _ITEM_BYTES.get(value.dtype)
    if size is None:
        return None
    count = 1
    for each in value.shape:
        if not isinstance(each, int):
            return None
        count *= each
    return count * size


_ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}
