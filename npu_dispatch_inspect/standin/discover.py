# SPDX-License-Identifier: BSD-3-Clause
"""Find out what an installed torch_npu wants from CANN.

Nothing here is a list of functions kept by hand: the wheel's own shared objects say
which libraries they must find (``DT_NEEDED``), which symbols nobody on this machine
defines, and, as plain strings, which names they look up with ``dlsym`` at run time.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from npu_dispatch_inspect.errors import StandInError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Self

__all__ = ["Needs", "discover", "exports"]

# A system library carries its ABI version after ".so"; CANN's libraries carry none.
# So an unversioned name that no installed package provides is CANN's.
_UNVERSIONED = re.compile(r"^lib[\w+-]+\.so$")

# Libraries of CANN and its driver that torch_npu opens by name without needing them at
# link time: a failure to open one ends as an error of whatever asked. Libraries of
# separate packages or tools (libdcmi, liblcal, libms_tools_ext, ...) are left out on
# purpose: torch_npu goes on without them, as it does on machines that lack them.
_OPENED_AT_RUN_TIME = (
    "libacl_op_compiler",
    "libascend_dump",
    "libascend_hal",
    "libascend_ml",
    "libascendcl",
    "libascendsk",
    "libhccl",
    "libhcomm",
    "libmsprofiler",
    "libmspti",
    "libnnopbase",
    "libopapi",
)

# A C++ symbol that mentions torch's namespaces is torch's. Undefined, it means that the
# wheel and torch do not fit, which the loader should say.
_OF_TORCH = re.compile(r"^_Z\w*(2at|3c10|5torch)")

# What public functions of CANN are called. Names asked for at run time are taken from
# the wheel's string constants, if they are one or the end of one: a linker keeps a
# string that ends another one only there.
_FUNCTION_NAME = re.compile(
    rb"((?:acl[a-z]*|Hccl|Hcomm|hal|mspti)[A-Z][A-Za-z0-9_]*)\0"
)

# Device names the wheel knows, e.g. Ascend910B1 or Ascend910_9391.
_DEVICE_NAME = re.compile(rb"(Ascend\d{3}[A-Za-z0-9_-]*)\0")


@attrs.frozen(kw_only=True)
class Needs:
    """What one torch_npu wheel wants from CANN.

    Attributes:
        libraries: file names that must be loadable, sorted.
        symbols: function names that must be found in them, sorted.
        devices: the device names this wheel knows, sorted.
    """

    libraries: tuple[str, ...]
    symbols: tuple[str, ...]
    devices: tuple[str, ...]


def discover(torch_npu: Path, torch: Path) -> Needs:
    """Read what the wheel needs from its shared objects.

    Args:
        torch_npu: folder of the installed ``torch_npu`` package.
        torch: folder of the installed ``torch`` package.

    Returns:
        The libraries and symbols to provide.

    Raises:
        StandInError: pyelftools is missing, or the folder holds no shared object.
    """
    objects = _shared_objects(torch_npu)
    if not any(path.name == "libtorch_npu.so" for path in objects):
        message = (
            f"No libtorch_npu.so in {torch_npu / 'lib'}; reinstall torch_npu, its "
            "files are incomplete."
        )
        raise StandInError(message)
    provided = {path.name for path in objects}
    provided.update(path.name for path in (torch / "lib").glob("*.so"))
    libraries: set[str] = set()
    undefined: set[str] = set()
    for path in objects:
        with _Elf(path) as elf:
            libraries.update(elf.needed())
            undefined.update(elf.undefined())
    libraries = {
        name for name in libraries if _UNVERSIONED.match(name) and name not in provided
    }
    neighbours = [*objects, *sorted((torch / "lib").glob("*.so"))]
    undefined -= _defined_in(neighbours, undefined)
    # The interpreter and the C library are in this very process.
    process = ctypes.CDLL(None)
    undefined = {
        name
        for name in undefined
        if not hasattr(process, name) and not _OF_TORCH.match(name)
    }
    with _Elf(torch_npu / "lib" / "libtorch_npu.so") as elf:
        text = elf.constants()
    libraries.update(
        f"{name}.so" for name in _OPENED_AT_RUN_TIME if name.encode() + b"\0" in text
    )
    asked = {name.decode() for name in _FUNCTION_NAME.findall(text)}
    devices = {name.decode() for name in _DEVICE_NAME.findall(text)}
    return Needs(
        libraries=tuple(sorted(libraries)),
        symbols=tuple(sorted(undefined | asked)),
        devices=tuple(sorted(devices)),
    )


def exports(path: Path) -> set[str]:
    """Return the names a shared object defines for others."""
    with _Elf(path) as elf:
        return set(elf.defined())


def _shared_objects(torch_npu: Path) -> list[Path]:
    """List the objects that are loaded with torch_npu itself.

    torchair (graph mode, below ``dynamo/``) is left out: it drives CANN's graph
    engine through C++ objects, which no function returning zero can stand for.
    """
    return sorted([*torch_npu.glob("_C*.so"), *(torch_npu / "lib").glob("*.so")])


def _defined_in(paths: Iterable[Path], names: set[str]) -> set[str]:
    """Tell which of the names one of these objects defines."""
    found: set[str] = set()
    for path in paths:
        wanted = names - found
        if not wanted:
            break
        with _Elf(path) as elf:
            found.update(elf.defines(wanted))
    return found


class _Elf:
    """An open shared object, seen through pyelftools."""

    def __init__(self, path: Path) -> None:
        try:
            from elftools.elf.elffile import ELFFile
        except ImportError as error:
            message = (
                "The stand-in reads torch_npu's symbols with pyelftools; install it "
                "with: pip install 'npu-dispatch-inspect[standin]'"
            )
            raise StandInError(message) from error
        self._stream = path.open("rb")
        self._file: Any = ELFFile(self._stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.close()

    def _section(self, kind: str) -> Any:
        return next(
            (s for s in self._file.iter_sections() if s["sh_type"] == kind), None
        )

    def needed(self) -> Iterator[str]:
        dynamic = self._section("SHT_DYNAMIC")
        for tag in dynamic.iter_tags("DT_NEEDED") if dynamic else ():
            yield tag.needed

    def undefined(self) -> Iterator[str]:
        """Yield what must be found elsewhere and belongs to no versioned library."""
        symbols = self._section("SHT_DYNSYM")
        versions = self._section("SHT_GNU_versym")
        # The linker puts what is not hashed, that is not defined, in front.
        hashed = self._section("SHT_GNU_HASH")
        count = hashed.params["symoffset"] if hashed else symbols.num_symbols()
        for index in range(1, count):
            symbol = symbols.get_symbol(index)
            if symbol["st_shndx"] != "SHN_UNDEF":
                continue
            # A weak symbol may stay unresolved: that is what weak means.
            if symbol["st_info"]["bind"] == "STB_WEAK":
                continue
            # A version (GLIBC_2.17, GLIBCXX_3.4, ...) names its library: a system one.
            if versions and versions.get_symbol(index).entry["ndx"] not in (
                "VER_NDX_LOCAL",
                "VER_NDX_GLOBAL",
            ):
                continue
            yield symbol.name

    def defined(self) -> Iterator[str]:
        for symbol in self._section("SHT_DYNSYM").iter_symbols():
            if symbol["st_shndx"] != "SHN_UNDEF":
                yield symbol.name

    def constants(self) -> bytes:
        """Return the bytes of the read-only data, where string constants are."""
        allocated, writable, executable = 2, 1, 4
        return b"".join(
            section.data()
            for section in self._file.iter_sections("SHT_PROGBITS")
            if section["sh_flags"] & (allocated | writable | executable) == allocated
        )

    def defines(self, names: Iterable[str]) -> Iterator[str]:
        hashed = self._section("SHT_GNU_HASH")
        for name in names if hashed else ():
            symbol = hashed.get_symbol(name)
            if symbol is not None and symbol["st_shndx"] != "SHN_UNDEF":
                yield name
