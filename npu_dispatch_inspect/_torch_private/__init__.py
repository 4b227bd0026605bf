# SPDX-License-Identifier: BSD-3-Clause
"""The only place that touches torch's private API.

One function per need; its docstring names the torch versions it was seen in.
Callers take what they need from the submodules and never touch `torch._C`
themselves. Importing this package imports no torch; its submodules do.
"""
