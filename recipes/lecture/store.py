"""Store the outputs of a run in the notebook, so that it can be read without being run.

    bash recipes/lecture/run.sh && python recipes/lecture/store.py runs/lecture/attention.ipynb

Pictures are stored in few colours, which makes them three times smaller.
"""

import argparse
import base64
import io
import json
import sys
from pathlib import Path

from PIL import Image

NOTEBOOK = Path(__file__).with_name("attention.ipynb")
SHOWN = "image/png", "text/markdown"  # of the forms of an output
COLOURS = 48


def main() -> None:
    """Store a run whose code is the notebook's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the notebook that was run")
    options = parser.parse_args()
    notebook, run = (json.loads(path.read_text("utf-8")) for path in (NOTEBOOK, options.run))
    ran = {cell["id"]: cell for cell in run["cells"]}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            if cell["source"] != ran[cell["id"]]["source"]:
                sys.exit(f"{options.run}: ran other code in the cell {cell['id']}")
            cell["execution_count"] = ran[cell["id"]]["execution_count"]
            cell["outputs"] = list(map(_stored, joined(ran[cell["id"]]["outputs"])))
    NOTEBOOK.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")


def joined(outputs: list[dict]) -> list[dict]:
    """Return a cell's outputs with what it printed as one, the first."""
    printed = "".join("".join(one["text"]) for one in outputs if one["output_type"] == "stream")
    stream = {"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)}
    return [stream] * bool(printed) + [one for one in outputs if one["output_type"] != "stream"]


def _stored(output: dict) -> dict:
    """Return an output as it is stored."""
    if "data" not in output:
        return output
    data = {form: value for form, value in output["data"].items() if form in SHOWN}
    if picture := data.get("image/png"):
        small = io.BytesIO()
        image = Image.open(io.BytesIO(base64.b64decode("".join(picture)))).convert("RGB")
        image.quantize(COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
        data["image/png"] = base64.b64encode(small.getvalue()).decode() + "\n"
    return output | {"data": data}


if __name__ == "__main__":
    main()
