# SPDX-License-Identifier: BSD-3-Clause
"""Context managers that record: operators, log lines, and both joined."""
