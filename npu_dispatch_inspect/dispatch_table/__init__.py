# SPDX-License-Identifier: BSD-3-Clause
"""The dispatcher's registration tables, and which kernel some tensors will reach."""
