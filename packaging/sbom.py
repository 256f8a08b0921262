"""Mends what cargo-cyclonedx wrote: usage: sbom.py IN OUT.

No path of the machine that built it, the same text for the same source, and the parts that are no
crates: the viewer of the API reference, and the numbering plans.
"""

import json
import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VIEWER = ROOT / "crates" / "service" / "viewer" / "VERSION.json"
PLANS = ROOT / "crates" / "numbering" / "VERSION.json"


def moment():
    """When the source was committed."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parts_beside_crates():
    """What is in the program and no crate."""
    viewer = part(VIEWER, "npm", "The viewer of the API reference")
    plans = part(PLANS, "pypi", "libphonenumber's metadata, which the numbering plans are made of")
    return [*viewer, *plans]


def part(path, registry, description):
    """What a VERSION.json names, if there is one."""
    if not path.exists():
        return []
    pinned = json.loads(path.read_text())
    name, version = pinned["package"], pinned["version"]
    found = {
        "type": "library",
        "bom-ref": f"pkg:{registry}/{name}@{version}",
        "name": name,
        "version": version,
        "description": description,
        "scope": "required",
        "licenses": [{"expression": pinned["licence"]}],
        "purl": f"pkg:{registry}/{name.replace('@', '%40')}@{version}",
    }
    if "sha256" in pinned:
        found["hashes"] = [{"alg": "SHA-256", "content": pinned["sha256"]}]
    return [found]


def main():
    """Runs it."""
    source, target = sys.argv[1:]
    text = Path(source).read_text().replace(f"path+file://{ROOT}/crates/", "estafette/")
    document = json.loads(text)
    document["metadata"]["timestamp"] = moment()
    document["components"] += parts_beside_crates()
    names = {component["name"] for component in document["components"]}
    # Linked in, and only for tests: if these two are not as they should be, nothing is.
    if "rusqlite" not in names or "proptest" in names:
        sys.exit("sbom: this is not what is linked into the program")
    document.pop("serialNumber", None)
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"
    if str(ROOT) in json.dumps(document):
        sys.exit("sbom: it holds paths of this machine")
    Path(target).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
