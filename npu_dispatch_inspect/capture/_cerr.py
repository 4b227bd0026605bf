# SPDX-License-Identifier: BSD-3-Clause
"""C++'s standard error after a failed write.

`std::cerr` writes nothing more once a write has failed, for as long as the
process lives. Where that happened because the file of a capture was full, the
program must get its standard error back in working order.
"""

from __future__ import annotations

import contextlib
import ctypes

__all__ = ["revive"]


def revive() -> None:
    """Let `std::cerr` write again; does nothing where the C++ library is another."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        library = ctypes.CDLL("libstdc++.so.6")
        stream = ctypes.addressof(ctypes.c_char.in_dll(library, "_ZSt4cerr"))
        # The state is in a virtual base, whose distance stands three words
        # before the table that the object points to.
        table = ctypes.c_void_p.from_address(stream).value or 0
        word = ctypes.sizeof(ctypes.c_void_p)
        distance = ctypes.c_ssize_t.from_address(table - 3 * word).value
        clear = library["_ZNSt9basic_iosIcSt11char_traitsIcEE5clearESt12_Ios_Iostate"]
        clear(ctypes.c_void_p(stream + distance), 0)
