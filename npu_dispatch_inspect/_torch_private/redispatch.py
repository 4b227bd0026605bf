# SPDX-License-Identifier: BSD-3-Clause
"""Private API behind the dispatcher tracer: a kernel of ours on every operator.

The dispatch key `TESTING_ONLY_GenericMode` outranks all keys but Python's own
dispatcher, has no kernels, and does nothing on a thread that does not include
it. A kernel on it sees every call of the operator first and passes it on.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.library import fallthrough_kernel
from torch.torch_version import TorchVersion

from npu_dispatch_inspect._torch_private.modes import hide_from_dynamo, mode_class

__all__ = [
    "GENERIC_KEY",
    "LOSES_RESULT",
    "argument_kinds",
    "below",
    "call_keys",
    "exclude_generic_key",
    "exclude_key_no_longer",
    "find_overload",
    "hand_higher_order_to",
    "higher_order_keys",
    "include_generic_key",
    "included_generic_key",
    "inherited",
    "is_generic_key_excluded",
    "keeping_result",
    "keys_without_modes",
    "leave",
    "live_keys",
    "missing_features",
    "python_keeping_result",
    "raw_keys",
    "redispatcher",
    "register_higher_order",
    "register_kernels",
    "returns_tensor",
    "sees_generic_key",
]

GENERIC_KEY = "TESTING_ONLY_GenericMode"
"""In torch 1.5 to 2.14; not an attribute of `torch._C.DispatchKey`."""

_NEEDED = (
    "_dispatch_key_parse",
    "_dispatch_keyset_full_after",
    "_dispatch_library",
    "_dispatch_get_all_op_names",
    "_dispatch_tls_set_dispatch_key_included",
    "_dispatch_tls_is_dispatch_key_included",
    "_dispatch_tls_is_dispatch_key_excluded",
    "_ExcludeDispatchKeyGuard",
    "_ForceDispatchKeyGuard",
    "_stash_obj_in_tls",
    "_get_obj_in_tls",
    "_is_key_in_tls",
)

_BELOW_MODES = ("Python", "PythonTLSSnapshot", "PythonDispatcher")


@functools.cache
def missing_features() -> tuple[str, ...]:
    """Name what this build of torch lacks of what the tracer rests on.

    Nothing is missing from 2.6 to 2.14; 2.1 lacks `redispatch_boxed` and the
    keyset for Python kernels.
    """
    missing = [each for each in _NEEDED if not hasattr(torch._C, each)]
    if not hasattr(torch._C._DispatchOperatorHandle, "redispatch_boxed"):
        missing.append("_DispatchOperatorHandle.redispatch_boxed")
    if "with_keyset" not in (torch._C._DispatchModule.impl.__doc__ or ""):
        missing.append("_DispatchModule.impl(with_keyset=)")
    if not missing:
        try:
            _key()
        except RuntimeError:
            missing.append(GENERIC_KEY)
    return tuple(missing)


@functools.cache
def _key() -> torch._C.DispatchKey:
    return torch._C._dispatch_key_parse(GENERIC_KEY)


@functools.cache
def _key_set() -> torch._C.DispatchKeySet:
    return torch._C.DispatchKeySet(_key())


below: dict[int, torch._C.DispatchKeySet] = {}
"""Raw key set of a call -> the keys that are left once our kernel has seen it.

Looking here costs two thirds of making the set anew each time; and 2.6 cannot make
a key set of its raw form.
"""


def raw_keys(keyset: torch._C.DispatchKeySet) -> int:
    """The raw form of a key set, and its entry in `below`; 2.6 to 2.14."""
    raw = int(keyset.raw_repr())
    if raw not in below:
        below[raw] = keyset & torch._C._dispatch_keyset_full_after(_key())
    return raw


def live_keys(raw: int) -> tuple[str, ...]:
    """Names of the keys in a raw key set of this process, highest first, but ours.

    The dispatcher masks out what falls through for the operator, so the first
    name is the key whose kernel runs. Seen in 2.6 to 2.14.
    """
    keyset = below[raw]
    names: list[str] = []
    while (key := keyset.highestPriorityTypeId()) != torch._C.DispatchKey.Undefined:
        names.append(str(torch._C._dispatch_key_name(key)))
        keyset = keyset.remove(key)
    return tuple(names)


def find_overload(name: str) -> Any | None:
    """The `OpOverload` of a dispatcher name, None where it cannot be called.

    Kernels may stand in the dispatcher without a schema. Seen in 2.6 to 2.14.
    """
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, namespace), operator)
        found = getattr(packet, overload or "default")
    except (AttributeError, RuntimeError):
        return None
    return found if isinstance(found, torch._ops.OpOverload) else None


def redispatcher(op: Any) -> Callable[..., Any]:
    """The function that runs an operator for a given key set; 2.4 to 2.14.

    `OpOverload.redispatch` is a Python method around it, at 0.2 us a call.
    """
    function: Callable[..., Any] = op._handle.redispatch_boxed
    if op is not LOSES_RESULT:
        return function
    tracer = torch._C.DispatchKeySet(_tracer_key())

    def run(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        return function(keys | tracer, *args, **kwargs)

    hide_from_dynamo(run)
    return run


LOSES_RESULT: Any = (
    torch.ops.aten.as_strided_.default
    if TorchVersion(torch.__version__) < "2.7"
    else None
)
"""The operator whose NPU kernel returns a reference to nothing, None where there is none.

In torch_npu 2.6.0, post3 and post5 `as_strided_` ends in `xor %eax,%eax; ret`. C++
callers do not look at what it returns, but a call from Python does, a plain
`TorchDispatchMode`'s too, and the process ends with a segmentation fault. With the
key `Tracer` the call goes through torch's kernel for `torch.jit.trace` first. Where
nothing is traced it does one thing: it calls the next kernel as C++ callers do and
returns the tensor that was written to.
"""


def keeping_result() -> AbstractContextManager[Any]:
    """A block for a mode's call of `LOSES_RESULT`; 2.6."""
    tracer = torch._C.DispatchKeySet(_tracer_key())
    included = torch._C._dispatch_tls_local_include_set() | tracer
    # Torch puts away all keys above Python while a mode handles a call.
    excluded = torch._C._dispatch_tls_local_exclude_set() - tracer
    guard: AbstractContextManager[Any] = torch._C._ForceDispatchKeyGuard(
        included, excluded
    )
    return guard


@contextmanager
def python_keeping_result() -> Iterator[None]:
    """A block in which torch's Python dispatcher calls `LOSES_RESULT` safely; 2.6.

    Graphs are traced under that dispatcher, and fake tensors of an NPU run some
    kernels (those of FFT) for real.
    """
    key = torch._C.DispatchKey.PrivateUse1
    if LOSES_RESULT is None or key in LOSES_RESULT.py_kernels:
        yield
        return
    run = functools.partial(redispatcher(LOSES_RESULT), torch._C.DispatchKeySet(key))
    LOSES_RESULT.py_kernels[key] = run
    LOSES_RESULT._dispatch_cache.clear()
    try:
        yield
    finally:
        LOSES_RESULT.py_kernels.pop(key, None)
        LOSES_RESULT._dispatch_cache.clear()


def _tracer_key() -> torch._C.DispatchKey:
    return torch._C._dispatch_key_parse("Tracer")


def argument_kinds(op: Any) -> Iterator[tuple[str, bool, str]]:
    """(name, keyword only, type as text) per argument; 2.1 to 2.14."""
    for each in op._schema.arguments:
        yield each.name, each.kwarg_only, str(each.type)


def returns_tensor(op: Any) -> bool:
    """The schema names one tensor as the result; 2.1 to 2.14."""
    returns = op._schema.returns
    return len(returns) == 1 and str(returns[0].type) == "Tensor"


@functools.cache
def _fallthrough_for_the_rest() -> Any:
    # Stays for good: an operator without a kernel of ours would refuse to run on
    # a thread that includes the key, and a thread may be left behind including it.
    library = torch._C._dispatch_library("IMPL", "_", "", __file__, 0)
    library.fallback(GENERIC_KEY, fallthrough_kernel, True)  # noqa: FBT003
    return library


def register_kernels(
    kernels: Iterable[tuple[str, Callable[..., Any]]],
) -> Callable[[], None]:
    """Put a Python kernel that takes the key set first on each named operator.

    Returns the function that takes them off again. Goes round
    `torch.library.Library.impl`, which keeps books per operator and takes three
    times as long. Seen in 2.6 to 2.14.
    """
    _fallthrough_for_the_rest()
    libraries: dict[str, Any] = {}
    for name, kernel in kernels:
        namespace = name.partition("::")[0]
        library = libraries.get(namespace)
        if library is None:
            library = torch._C._dispatch_library("IMPL", namespace, "", __file__, 0)
            libraries[namespace] = library
        library.impl(name, GENERIC_KEY, kernel, True)  # type: ignore[call-arg]  # noqa: FBT003

    def remove() -> None:
        for each in libraries.values():
            each.reset()

    return remove


def include_generic_key(on: bool) -> None:  # noqa: FBT001 - sets a switch
    """Let this thread's calls reach our kernels, or not; 2.1 to 2.14."""
    torch._C._dispatch_tls_set_dispatch_key_included(_key(), on)


def included_generic_key() -> bool:
    """True where this thread includes the key; 2.1 to 2.14."""
    return bool(torch._C._dispatch_tls_is_dispatch_key_included(_key()))


def sees_generic_key() -> bool:
    """True where the next call of this thread would reach our kernel; 2.1 to 2.14."""
    return (
        included_generic_key()
        and not torch._C._dispatch_tls_is_dispatch_key_excluded(_key())
    )


def exclude_generic_key() -> AbstractContextManager[Any]:
    """A block whose calls do not reach our kernels; 2.1 to 2.14."""
    guard: AbstractContextManager[Any] = torch._C._ExcludeDispatchKeyGuard(_key_set())
    return guard


def is_generic_key_excluded() -> bool:
    """True where this thread excludes the key; 2.1 to 2.14."""
    return bool(torch._C._dispatch_tls_is_dispatch_key_excluded(_key()))


def exclude_key_no_longer(on: bool) -> None:  # noqa: FBT001 - sets a switch
    """Take the key off what this thread excludes (or put it back); 2.1 to 2.14."""
    torch._C._dispatch_tls_set_dispatch_key_excluded(_key(), not on)


def leave(name: str, value: object) -> None:
    """Keep an object with this thread, and with the autograd threads it sets to work.

    `_stash_obj_in_tls`, part of the state that torch hands to the threads which
    run a backward pass. Seen in 2.6 to 2.14; 2.6 forgets to count the reference it
    keeps, which frees the object under its users.
    """
    if inherited(name) is value:
        return
    references = sys.getrefcount(value)
    torch._C._stash_obj_in_tls(name, value)
    if sys.getrefcount(value) == references:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def inherited(name: str) -> Any | None:
    """The object that was left under ``name``, None where there is none; 2.1 to 2.14."""
    if not torch._C._is_key_in_tls(name):
        return None
    return torch._C._get_obj_in_tls(name)


def call_keys(tensor: torch.Tensor) -> torch._C.DispatchKeySet:
    """The key set that a call on one tensor would have here; 2.1 to 2.14."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    return (torch._C._dispatch_keys(tensor) | included) - excluded


def keys_without_modes(tensor: torch.Tensor) -> int:
    """Raw key set of a call that torch makes with all modes put aside.

    That is how `_make_subclass` and `as_subclass` call `detach` and `alias`;
    seen in 2.6 to 2.14.
    """
    keyset = call_keys(tensor)
    own = torch._C._dispatch_keys(tensor)
    for name in _BELOW_MODES:
        key = torch._C._dispatch_key_parse(name)
        if not own.has(key):
            keyset = keyset.remove(key)
    return raw_keys(keyset)


def higher_order_keys(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[int, Any]:
    """Raw key set of a higher-order call, and the key to go on with; 2.4 to 2.14."""
    compute: Callable[..., Any] = torch._ops._compute_keyset
    keyset = compute(args, kwargs, op.non_fallthrough_keys)
    raw = raw_keys(keyset)
    return raw, below[raw].highestPriorityTypeId()


def hand_higher_order_to(mode: type) -> None:
    """Let a class of modes have higher-order calls as it has others.

    A mode says that it can with `supports_higher_order_operators`; 2.6 and 2.7 do
    not ask for that, they want a rule per operator and raise where there is none.
    """
    if hasattr(mode_class, "supports_higher_order_operators"):
        return
    for op in list(torch._ops._higher_order_ops.values()):
        if mode not in op.python_key_table:
            op.python_key_table[mode] = functools.partial(_handed, op)


def _handed(op: Any, mode: Any, /, *args: Any, **kwargs: Any) -> Any:
    return mode.__torch_dispatch__(op, (), args, kwargs)


def register_higher_order(
    make: Callable[[Any], Callable[..., Any]],
) -> Callable[[], None]:
    """Put a kernel on every higher-order operator; return what takes them off.

    They are dispatched in Python, so the C++ registrations do not reach them.
    One that is created meanwhile lets the key fall through.
    `py_kernels`, `non_fallthrough_keys` and the list of default fallthroughs
    seen in 2.4 to 2.14.
    """
    key = _key()
    ops = list(torch._ops._higher_order_ops.values())
    for op in ops:
        op.non_fallthrough_keys = op.non_fallthrough_keys.add(key)
        op.py_kernels[key] = make(op)
    defaults: list[Any] = torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS
    defaults.append(key)

    def remove() -> None:
        for op in ops:
            op.py_kernels.pop(key, None)
            op._dispatch_cache.pop(key, None)
        if key in defaults:
            defaults.remove(key)

    return remove
