# SPDX-License-Identifier: BSD-3-Clause
"""Traces, tables, graphs and reports as files for other programs and for people."""
