# SPDX-License-Identifier: BSD-3-Clause
"""Compile the stand-in's libraries once and keep them in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from npu_dispatch_inspect.errors import StandInError
from npu_dispatch_inspect.standin.discover import Needs, discover, exports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

__all__ = ["CACHE_VARIABLE", "RUNTIME", "Build", "cache_folder", "find_or_build"]

CACHE_VARIABLE = "NPU_DISPATCH_INSPECT_CACHE"

#: The library with all the code; the others only carry the names CANN uses.
RUNTIME = "libnpu_dispatch_inspect_standin.so"

_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared")
_MANIFEST = "manifest.json"
_BUILDING = ".building-"
_LOCK = ".lock"
_ABANDONED_AFTER_SECONDS = 3600.0


@attrs.frozen(kw_only=True)
class Build:
    """A finished set of libraries.

    Attributes:
        folder: where everything lies.
        libraries: file names in ``folder/lib64``, in the order to load them.
        devices: device names the wheel knows.
    """

    folder: Path
    libraries: tuple[str, ...]
    devices: tuple[str, ...]


def cache_folder() -> Path:
    """Return the folder builds are kept in: the user's cache, unless told otherwise."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute() / "standin"
    try:
        import platformdirs
    except ImportError as error:
        message = (
            "The stand-in finds the user's cache folder with platformdirs; install it "
            "with: pip install 'npu-dispatch-inspect[standin]' (or name a folder in "
            f"{CACHE_VARIABLE})"
        )
        raise StandInError(message) from error
    return platformdirs.user_cache_path("npu-dispatch-inspect") / "standin"


def find_or_build(torch_npu: Path, torch: Path, version: str) -> Build:
    """Return the libraries for this wheel, from the cache if they are there.

    Args:
        torch_npu: folder of the installed ``torch_npu`` package.
        torch: folder of the installed ``torch`` package.
        version: version of the installed torch_npu.

    Raises:
        StandInError: no compiler, a failed compilation or an unwritable cache.
    """
    cache = cache_folder()
    folder = cache / f"torch_npu-{version}-{_key(torch_npu, version)}"
    found = _read(folder)
    if found is not None:
        return found
    compiler = _compiler()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / _LOCK).open("w")
    except OSError as error:
        raise _unwritable(cache, error) from error
    with lock:
        # The ranks of a job start together: one builds, the others wait for it.
        _wait_for(lock)
        found = _read(folder)
        if found is None:
            _build(folder, discover(torch_npu, torch), compiler, version)
            found = _read(folder)
    if found is None:
        message = (
            f"The stand-in's build in {folder} vanished or is damaged; remove that "
            "folder and try again."
        )
        raise StandInError(message)
    return found


def _build(folder: Path, needs: Needs, compiler: list[str], version: str) -> None:
    """Build aside and rename, so that others see a whole build or none."""
    cache = folder.parent
    try:
        _sweep(cache)
        scratch = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=cache))
    except OSError as error:
        raise _unwritable(cache, error) from error
    try:
        _compile(scratch, needs, compiler, version)
        _publish(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _unwritable(cache: Path, error: OSError) -> StandInError:
    return StandInError(
        f"The stand-in cannot write to its cache folder {cache} ({error.strerror}); set "
        f"{CACHE_VARIABLE} to a folder that can be written."
    )


def _wait_for(lock: TextIO) -> None:
    """Wait until this process may build; the system lets go of a killed one's lock."""
    import fcntl

    # Where files cannot be locked (some network shares), several build at once: a
    # waste, but safe, because each renames a build of its own.
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX)


def _sources() -> list[Path]:
    return sorted(Path(__file__).parent.glob("*.[ch]"))


def _key(torch_npu: Path, version: str) -> str:
    """Name the build after all that goes into it.

    The needed symbols follow from the wheel's objects and from discover.py, so both
    stand for them: a warm start need not look into a 100 MB file. An installer keeps
    the size and time of what it unpacks, hence a reinstalled wheel is noticed.
    """
    digest = hashlib.sha256(repr((version, sys.platform, _FLAGS)).encode())
    here = Path(__file__).parent
    for path in [*_sources(), here / "discover.py", here / "build.py"]:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    for path in sorted([*torch_npu.glob("_C*.so"), *(torch_npu / "lib").glob("*.so")]):
        status = path.stat()
        digest.update(f"{path}:{status.st_size}:{status.st_mtime_ns}".encode())
    return digest.hexdigest()[:20]


def _read(folder: Path) -> Build | None:
    """Return the build in the folder if it is there and whole."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        sizes: dict[str, int] = manifest["libraries"]
        whole = all(
            (folder / "lib64" / name).stat().st_size == size
            for name, size in sizes.items()
        )
    except (OSError, ValueError, KeyError):
        return None
    if not whole:
        return None
    return Build(
        folder=folder, libraries=tuple(sizes), devices=tuple(manifest["devices"])
    )


def _sweep(cache: Path) -> None:
    """Remove what builds that were killed left behind."""
    for path in cache.glob(f"{_BUILDING}*"):
        try:
            abandoned = time.time() - path.stat().st_mtime > _ABANDONED_AFTER_SECONDS
        except OSError:
            continue
        if abandoned:
            shutil.rmtree(path, ignore_errors=True)


def _publish(scratch: Path, folder: Path) -> None:
    """Rename the finished build into place, unless another process was faster."""
    try:
        scratch.rename(folder)
    except OSError:
        if _read(folder) is not None:
            return
        # A damaged build is in the way: put it aside, so that it goes with the rest.
        aside = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=folder.parent))
        folder.rename(aside / "damaged")
        scratch.rename(folder)
        shutil.rmtree(aside, ignore_errors=True)


def _compiler() -> list[str]:
    """Return the command of the first C compiler there is."""
    chosen = os.environ.get("CC")
    if chosen:
        command = shlex.split(chosen)
        if shutil.which(command[0]) is None:
            message = (
                f"The C compiler named in CC ({chosen}) was not found; unset CC or "
                "set it to a compiler that exists."
            )
            raise StandInError(message)
        return command
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    message = (
        "The stand-in needs a C compiler and found neither cc, gcc nor clang; install "
        "one, or one from PyPI with: pip install ziglang"
    )
    raise StandInError(message)


def _compile(scratch: Path, needs: Needs, compiler: list[str], version: str) -> None:
    """Write and compile everything into the scratch folder, and describe it."""
    libraries = scratch / "lib64"
    libraries.mkdir()
    names = scratch / "names.c"
    names.write_text("".join(_names_source(needs)), encoding="ascii")
    empty = scratch / "empty.c"
    empty.write_text("typedef int nothing;\n", encoding="ascii")
    sources = [str(path) for path in _sources() if path.suffix == ".c"]
    _run([
        *compiler, *_FLAGS, *sources, str(names), "-o", str(libraries / RUNTIME),
        f"-Wl,-soname,{RUNTIME}", "-lpthread",
    ])  # fmt: skip
    lacking = sorted(set(needs.symbols) - exports(libraries / RUNTIME))
    if lacking:
        message = (
            f"The stand-in built with {shlex.join(compiler)} lacks what torch_npu "
            f"{version} asks for: {', '.join(lacking)}; set CC to another compiler, or "
            "report it."
        )
        raise StandInError(message)
    # A shell has the name torch_npu asks for and leads to the runtime: a symbol looked
    # up in a library is also searched in what that library needs. The runtime is found
    # because it is loaded first, or in child processes on LD_LIBRARY_PATH.
    for name in needs.libraries:
        _run([
            *compiler, *_FLAGS, str(empty), "-o", str(libraries / name),
            f"-Wl,-soname,{name}", "-Wl,--no-as-needed", str(libraries / RUNTIME),
        ])  # fmt: skip
    manifest = {
        "torch_npu": version,
        "compiler": shlex.join(compiler),
        "libraries": {
            name: (libraries / name).stat().st_size
            for name in (RUNTIME, *needs.libraries)
        },
        "devices": needs.devices,
        "symbols": needs.symbols,
    }
    names.unlink()
    empty.unlink()
    # torch_npu's import looks for these in the folder of a CANN installation.
    for part in ("compiler", "opp", "runtime"):
        (scratch / part).mkdir()
    text = json.dumps(manifest, indent=1) + "\n"
    (scratch / _MANIFEST).write_text(text, encoding="utf-8")


def _names_source(needs: Needs) -> Iterator[str]:
    """Write C that gives every needed name a function answering 0.

    The names are weak aliases, so that a function of the same name in the runtime
    wins, and assembler names, so that C++ symbols can be among them.
    """
    yield '#include "standin.h"\n'.replace(
        "standin.h", str(Path(__file__).parent / "standin.h")
    )
    yield "NDI_EXPORT long ndi_zero(void) { return 0; }\n"
    yield "NDI_EXPORT long ndi_unsupported(void)\n{\n"
    yield '    ndi_set_error("the stand-in has no ATB operators");\n    return 1;\n}\n'
    for name in needs.symbols:
        # atb::Create... would have to make C++ objects; an error is said instead.
        target = "ndi_unsupported" if name.startswith("_ZN3atb") else "ndi_zero"
        yield f'__asm__(".weak {name}\\n.type {name}, @function\\n.set {name}, {target}");\n'


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own compiler
            command, capture_output=True, text=True, check=False, timeout=600
        )
    except OSError as error:
        message = f"The C compiler {command[0]} did not start: {error}"
        raise StandInError(message) from error
    if done.returncode != 0:
        message = (
            f"Compiling the stand-in failed (set CC to another compiler, or report "
            f"it): {shlex.join(command)}\n{done.stdout}{done.stderr}"
        )
        raise StandInError(message)
