"""Mends what cargo-cyclonedx wrote: usage: sbom.py IN OUT.

No path of the machine that built it, the same text for the same source, and the parts that are no
crates: the viewer of the API reference.
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


def moment():
    """When the source was committed."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parts_beside_crates():
    """What is in the program and no crate."""
    if not VIEWER.exists():
        return []
    viewer = json.loads(VIEWER.read_text())
    name, version = viewer["package"], viewer["version"]
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:npm/{name}@{version}",
            "name": name,
            "version": version,
            "description": "The viewer of the API reference",
            "scope": "required",
            "licenses": [{"expression": viewer["licence"]}],
            "hashes": [{"alg": "SHA-256", "content": viewer["sha256"]}],
            "purl": f"pkg:npm/{name.replace('@', '%40')}@{version}",
        }
    ]


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
