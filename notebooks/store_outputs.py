"""Run the notebooks from top to bottom and keep what they show, so that they can be read where they are:

    python notebooks/store_outputs.py            # all of them, or those that are named

Figures are stored as pictures: a notebook stays small, and any page that shows notebooks shows them. In Jupyter they
are drawn anew, and can be zoomed and hovered over. `tests/notebooks` runs the notebooks in the same way.
"""

from __future__ import annotations

import base64
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
WIDGET = "application/vnd.jupyter.widget-view+json"


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs, its figures as JSON."""
    book = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": ROOT}}
    client = NotebookClient(book, timeout=600, kernel_name="python3", resources=where)
    client.execute(env={**os.environ, "PLOTLY_RENDERER": "json", "PYTHONPATH": str(ROOT / "src")})
    return book


def png(figure: dict[str, Any]) -> str:
    """With half as many dots again as it is wide, in all its colours: fewer would falsify colour bars. Packed tightly,
    which saves a third."""
    import kaleido
    import plotly.graph_objects as go
    from PIL import Image

    options = {"format": "png", "scale": 1.5}
    data = kaleido.calc_fig_sync(go.Figure(figure).to_dict(), opts=options, kopts={"mathjax": False})
    packed = io.BytesIO()
    Image.open(io.BytesIO(data)).convert("RGB").save(packed, "PNG", optimize=True)
    return base64.b64encode(packed.getvalue()).decode("ascii")


def tidied(book: nbformat.NotebookNode, picture: Callable[[dict[str, Any]], str] = png) -> nbformat.NotebookNode:
    """Figures as pictures; without what only a running kernel can show."""
    for cell in book.cells:
        cell.metadata = nbformat.from_dict({})
        outputs = [output for output in cell.get("outputs", ()) if WIDGET not in output.get("data", {})]
        for output in outputs:
            data = output.get("data", {})
            if "application/json" in data:
                output.data = nbformat.from_dict({"image/png": picture(data["application/json"])})
                output.metadata = nbformat.from_dict({})
            elif "text/html" in data:
                data.pop("text/plain", None)  # the same once more, as Python would write it
        if cell.cell_type == "code":
            cell.outputs = joined(outputs)
    book.metadata.pop("widgets", None)
    return book


def joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """What was printed in one go, in one piece: where a kernel cuts it depends on the moment."""
    result: list[nbformat.NotebookNode] = []
    for output in outputs:
        if result and output.output_type == "stream" == result[-1].output_type and output.name == result[-1].name:
            result[-1].text += output.text
        else:
            result.append(output)
    return result


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    for notebook in [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(tidied(executed(notebook)), notebook)
        print(notebook.name, f"{notebook.stat().st_size / 1000:.0f} kB")
