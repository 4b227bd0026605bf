# SPDX-License-Identifier: BSD-3-Clause
"""Run the example notebooks and store them with their outputs.

    python docs/notebooks/execute.py [NOTEBOOK ...]

What differs between two runs is left out of the file: warnings on standard error with
their times, widths of a terminal, the time and version of whoever ran it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def executed(path: Path) -> Any:
    """A notebook after it ran from top to bottom in a new kernel."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return cleaned(notebook)


def cleaned(notebook: Any) -> Any:
    """The notebook without what belongs to one run alone."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [
                each for each in cell.outputs if each.get("name") != "stderr"
            ]
            for each in cell.outputs:
                each.pop("transient", None)
    return notebook


def main(names: list[str]) -> None:
    """Run the notebooks of these names, or all of them."""
    for path in map(Path, names) if names else sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
