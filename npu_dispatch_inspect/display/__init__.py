# SPDX-License-Identifier: BSD-3-Clause
"""Text for people, made of records and traces alone."""
