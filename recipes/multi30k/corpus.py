"""Write two languages of Multi30k as plain text, from a folder or a checked download.

    python recipes/multi30k/corpus.py --out DIR [--languages en,de] [--folder DIR]

writes DIR/{train,valid,test}.{en,de}; the default is en,fr. --folder may have them as
{train,val,test_2016_flickr}.{en,de}, plain or as .gz. Files appear only when complete, and complete
ones are not downloaded again.
"""

import argparse
import gzip
import hashlib
import sys
import urllib.request
from pathlib import Path

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import replacing

sys.path.append(str(Path(__file__).resolve().parents[1]))
from text_files import read_bytes

COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
URL = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw"
OURS = {"val": "valid", "test_2016_flickr": "test"}
# The digests are those of the unpacked text.
SHA256 = {
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
}


def from_folder(folder: Path, name: str) -> bytes:
    """Read a file's text; a warning says if it is not the pinned one."""
    text = read_bytes(folder / name)
    if hashlib.sha256(text).hexdigest() != SHA256[name]:
        print(f"warning: {name} in {folder} is not Multi30k's at {COMMIT[:8]}", file=sys.stderr)
    return text


def download(name: str) -> bytes:
    """Fetch a file's text, which must be the pinned one."""
    address = f"{URL}/{name}.gz"
    with urllib.request.urlopen(address, timeout=60) as response:
        text = gzip.decompress(response.read())
    digest = hashlib.sha256(text).hexdigest()
    if digest != SHA256[name]:
        raise UserError(f"{address}: SHA-256 of the text is {digest}, should be {SHA256[name]}")
    return text


def lay_out(out: Path, languages: list[str], folder: Path | None) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in SHA256:
        split, language = name.split(".")
        path = out / f"{OURS.get(split, split)}.{language}"
        if path.exists() or language not in languages:
            continue
        text = from_folder(folder, name) if folder else download(name)
        with replacing(path) as unfinished:
            unfinished.write_bytes(text)


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Lay out Multi30k as plain text.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--languages", default="en,fr", help="of de, en and fr")
    parser.add_argument("--folder", type=Path, help="take the files from here")
    options = parser.parse_args()
    lay_out(options.out, options.languages.split(","), options.folder)


if __name__ == "__main__":
    main()
