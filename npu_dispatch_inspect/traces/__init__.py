# SPDX-License-Identifier: BSD-3-Clause
"""Ordered sets of records with queries: the values that captures give back."""
