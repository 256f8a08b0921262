"""Packs the documents that lie beside the program, or checks some that were packed.

They lie flat, so links are written anew: to what is packed, and to nothing where that is only in the
source, whose path is then named in words. In the end every link that is not a web address must lead
to a file in the folder, and to a heading where it names one.

Usage: documents.py FOLDER            packs them into FOLDER and checks them
       documents.py --check FOLDER    checks what is there
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKED = ["README.md", "CHANGELOG.md", "LICENSE", "docs/*.md", "docs/alerts.yml",
          "docs/alerts_test.yml", "docs/grafana.json", "docs/demo.svg", "docs/kannel.conf"]
# A link or picture of Markdown: an exclamation mark, the text, the target.
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
# Links that stand in HTML, or apart from their text.
OTHER = re.compile(r"""(?:href|src)=["']([^"']+)|^\[[^\]]+\]:\s*(\S+)""", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def sources():
    """Each file that is packed, by its path in the source."""
    found = [path for pattern in PACKED for path in sorted(ROOT.glob(pattern))]
    names = [path.name for path in found]
    if doubled := {name for name in names if names.count(name) > 1}:
        sys.exit(f"packaging/documents.py: more than one would be {', '.join(doubled)}")
    return {path: path.name for path in found}


def is_elsewhere(target):
    """Whether it is an address of its own."""
    return re.match(r"[a-z][a-z0-9+.-]*:", target) is not None


def rewritten(source, packed):
    """A document with the links that it has where it is packed."""
    def link(found):
        mark, text, target = found.groups()
        path, _, heading = target.partition("#")
        if is_elsewhere(target) or not path:
            return found[0]
        there = (source.parent / path).resolve()
        path = there.relative_to(ROOT).as_posix()
        if there in packed:
            text = packed[there] if text == path else text
            return f"{mark}[{text}]({packed[there]}{'#' if heading else ''}{heading})"
        return f"`{path}` in the source" if text == path else f"{text}, `{path}` in the source"

    return LINK.sub(link, source.read_text())


def anchors(text):
    """The names of its headings, as the places that show Markdown make them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    plain = (LINK.sub(r"\2", heading).lower() for heading in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def dead_links(folder):
    """The links that lead nowhere."""
    texts = {path.name: path.read_text() for path in sorted(folder.glob("*.md"))}
    if not texts:
        yield f"there is no document in {folder}"
    for name, text in texts.items():
        targets = [found[3] for found in LINK.finditer(text)]
        targets += [found[1] or found[2] for found in OTHER.finditer(text)]
        for target in targets:
            path, _, heading = target.partition("#")
            if is_elsewhere(target):
                continue
            if not (folder / (path or name)).is_file():
                yield f"{name} links to {target}, which is not packed"
            elif heading and heading not in anchors(texts.get(path or name, "")):
                yield f"{name} links to {target}, and there is no such heading"


def main(arguments):
    """Packs, unless it is to check only."""
    is_check = arguments[:1] == ["--check"]
    if len(arguments) != 1 + is_check or arguments[-1].startswith("-"):
        sys.exit(__doc__)
    folder = Path(arguments[-1])
    if not is_check:
        folder.mkdir(parents=True, exist_ok=True)
        packed = sources()
        for path, name in packed.items():
            if path.suffix == ".md":
                (folder / name).write_text(rewritten(path, packed))
            else:
                shutil.copyfile(path, folder / name)
    faults = list(dead_links(folder))
    for fault in faults:
        print(f"packaging/documents.py: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
