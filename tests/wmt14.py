"""Tiny archives with the names and inner paths of WMT'14's, and a server that gives them out."""

import gzip
import hashlib
import io
import random
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from commands import ROOT, Finished, call

RECIPE = ROOT / "recipes" / "wmt14_en_fr"
LANGUAGES = ("en", "fr")

# English and French of each domain, so different that selection has to find the news
NEWS = "minister:ministre court:tribunal police:police vote:vote the:le of:de a:un said:dit".split()
WEB = "click:cliquez here:ici page:page site:site home:accueil the:le of:de a:un".split()
WEB_CORPORA = "europarl-v7", "un", "commoncrawl", "giga-fren"
DOMAINS = {**dict.fromkeys(WEB_CORPORA, WEB), "news-commentary-v9": NEWS}


def sentences(domain: list[str], seed: str, count: int) -> tuple[list[str], list[str]]:
    """Draw so many sentences of three to nine words and a full stop, in both languages."""
    draw = random.Random(seed)
    lines = ([], [])
    while len(lines[0]) < count:
        words = [draw.choice(domain).split(":") for _ in range(draw.randint(3, 9))]
        for side in (0, 1):
            lines[side].append(" ".join(word[side] for word in words).capitalize() + ".")
    return lines


def corpus(name: str) -> tuple[list[str], list[str]]:
    """Return the text of one of the five corpora, with the oddities that real ones have."""
    english, french = sentences(DOMAINS[name], name, 40)
    english += ["", "A" + " a" * 120, "One\u2028line & <b>two</b>", "Only", "tab\tand\rreturn"]
    french += ["Vide.", "Un" + " un" * 120, "Une\u00a0ligne & <b>deux</b>", "Un " * 12, "l'été"]
    return english, french


def sgml(kind: str, lines: list[str]) -> bytes:
    """Return a test set of two documents."""
    half = len(lines) // 2
    text = f'<{kind} setid="newstest" srclang="any">\n'
    for number, part in enumerate((lines[:half], lines[half:])):
        text += f'<doc docid="d{number}" genre="news" origlang="fr">\n<hl>\n'
        for i, line in enumerate(part, start=1):
            text += f'<seg id="{i}">{line.replace("&", "&amp;").replace("<", "&lt;")}</seg>\n'
        text += "</hl>\n</doc>\n"
    return (text + f"</{kind}>\n").encode()


def packed(members: dict[str, bytes], compress: bool, links: dict[str, str] | None = None) -> bytes:
    """Return an archive of files by their names, and of symbolic links."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz" if compress else "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return out.getvalue()


def program(name: str, *arguments: object) -> Finished:
    """Run one of the recipe's Python programs."""
    return call(RECIPE / f"{name}.py", *arguments)


def rows() -> list[list[str]]:
    """Read the columns of the recipe's table of archives."""
    lines = (RECIPE / "archives.tsv").read_text().splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def make_archives(folder: Path) -> dict[str, bytes]:
    """Make all archives, by their path below a mirror, and the table ``folder/archives.tsv``."""
    made, table = {}, ""
    for row in rows():
        name, path, paths = row[0], row[1], row[5:]
        if name in DOMAINS:
            texts = [("\n".join(lines) + "\n").encode() for lines in corpus(name)]
            if name == "giga-fren":
                texts = [gzip.compress(text, mtime=0) for text in texts]
        else:
            lines = sentences(NEWS, name, 30)
            refset = "refset" if "ref" in paths[1] else "srcset"
            texts = [sgml("srcset", lines[0]), sgml(refset, lines[1])]
        others = {"training/europarl-v7.de-en.de": b"Nein.\n", "README": b"Of something else.\n"}
        made[path] = packed(others | dict(zip(paths, texts, strict=True)), path.endswith("gz"))
        digest = hashlib.sha256(made[path]).hexdigest()
        table += "\t".join([*row[:3], str(len(made[path])), f"sha256:{digest}", *paths]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "archives.tsv").write_text("# of the tests\n" + table)
    return made


class Mirror:
    """What the server gives out and how it misbehaves.

    Attributes:
        files: content by path.
        cut: bytes after which a connection ends, for each of the next answers; 0 is all.
        ranges: whether it understands them.
        asked: path and Range header of each request.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.cut: list[int] = []
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []
        self.address = ""


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Mirror]:
    mirror = Mirror(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, wanted = self.path.lstrip("/"), self.headers.get("Range")
            mirror.asked.append((path, wanted))
            if path not in mirror.files:
                self.send_error(404)
                return
            content = mirror.files[path]
            begin = int(wanted[6:-1]) if wanted and mirror.ranges else 0
            if begin and begin >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.end_headers()
                return
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            end = mirror.cut.pop(0) if mirror.cut else 0
            self.wfile.write(content[begin : begin + end] if end else content[begin:])

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    mirror.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield mirror
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
