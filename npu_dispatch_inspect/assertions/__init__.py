# SPDX-License-Identifier: BSD-3-Clause
"""Assertions on traces: plain functions that raise AssertionError.

They are the same in pytest, in unittest and in a script.
"""
