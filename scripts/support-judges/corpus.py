"""The corpus of uploads: images of every kind that Pillow makes, PDFs, and files that are not what
they seem. Each is named with what must become of it; what is taken must come back byte for byte."""

import io
import json
import random
import struct
import sys
import zlib

from PIL import Image, ImageDraw
from upload import download, upload

facts = json.load(sys.stdin)
TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
}
SCRIPT = b"<script>alert(document.domain)</script>"
ZIP = b"PK\x03\x04" + b"\0" * 26 + b"PK\x05\x06" + b"\0" * 18
chance = random.Random(7)


def picture(size=(40, 30), mode="RGB"):
    image = Image.new("RGB", size, (200, 30, 30))
    ImageDraw.Draw(image).line((0, 0, *size), fill=(0, 0, 255), width=3)
    return image.convert(mode)


def saved(image, kind, **more):
    out = io.BytesIO()
    image.save(out, {"jpg": "JPEG"}.get(kind, kind.upper()), **more)
    return out.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def raw_png(width, height, rows=b""):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def exif():
    data = Image.Exif()
    data[0x010E] = "a secret place"
    return data


def good():
    """(name, extension, content) of files that must be taken."""
    for mode in ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"]:
        yield f"png {mode}", "png", saved(picture(mode=mode) if mode != "I;16" else Image.new("I;16", (9, 9)), "png")
    for level in [0, 9]:
        yield f"png level {level}", "png", saved(picture((200, 200)), "png", compress_level=level)
    for size in [(1, 1), (1, 999), (999, 1), (3000, 2000)]:
        yield f"png {size}", "png", saved(picture(size), "png")
    yield "png with text", "png", png_with(b"tEXt", b"Comment\0hello")
    yield "png with an unknown chunk", "png", png_with(b"prVt", b"anything")
    for mode in ["L", "RGB", "CMYK"]:
        yield f"jpg {mode}", "jpg", saved(picture(mode=mode), "jpg")
    for more in [{"quality": 5}, {"quality": 95}, {"progressive": True}, {"optimize": True},
                 {"subsampling": 0}, {"exif": exif()}, {"comment": b"a comment"},
                 {"icc_profile": b"x" * 3000}, {"restart_marker_blocks": 2}]:
        yield f"jpg {next(iter(more))}", "jpg", saved(picture((120, 90)), "jpg", **more)
    yield "jpg by another extension", "jpeg", saved(picture(), "jpg")
    for size in [(1, 1), (5000, 400)]:
        yield f"jpg {size}", "jpg", saved(picture(size), "jpg")
    yield "gif", "gif", saved(picture(), "gif")
    yield "gif 87a", "gif", b"GIF87a" + saved(picture(), "gif")[6:]
    frames = [picture((20, 20)).rotate(turn) for turn in range(0, 90, 15)]
    yield "gif animated", "gif", saved(frames[0], "gif", save_all=True, append_images=frames[1:], loop=0)
    yield "gif with a comment", "gif", saved(picture(), "gif", comment=b"hello")
    yield "gif transparent", "gif", saved(picture(mode="P"), "gif", transparency=0)
    yield "gif interlaced", "gif", saved(picture((64, 64)), "gif", interlace=1)
    for more in [{"lossless": True}, {"quality": 10}, {"exif": exif()}, {"method": 6}]:
        yield f"webp {next(iter(more))}", "webp", saved(picture((90, 60)), "webp", **more)
    yield "webp alpha", "webp", saved(picture(mode="RGBA"), "webp", lossless=True)
    yield "webp animated", "webp", saved(frames[0], "webp", save_all=True, append_images=frames[1:])
    for version in ["1.0", "1.4", "1.7", "2.0"]:
        yield f"pdf {version}", "pdf", pdf(version)
    photo = saved(picture(), "jpg")
    yield "jpg with a second picture", "jpg", photo + photo
    yield "jpg with a film", "jpg", photo + b"\0\0\0\x18ftypmp42" + b"\0" * 16
    yield "jpg with filling", "jpg", photo + b"\0" * 100
    yield "pdf with filling", "pdf", pdf("1.4") + b"\0" * 100
    yield "pdf by Pillow", "pdf", saved(picture(), "pdf")
    yield "pdf of two pages", "pdf", saved(picture(), "pdf", save_all=True, append_images=[picture()])
    yield "pdf without a last line end", "pdf", pdf("1.4").rstrip()
    yield "pdf of ten mebibytes", "pdf", b"%PDF-1.4\n" + b" " * (10 * 1024 * 1024 - 16) + b"\n%%EOF\n"


def pdf(version):
    return f"%PDF-{version}\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n".encode()


def png_with(kind, data):
    whole = saved(picture(), "png")
    return whole[:33] + chunk(kind, data) + whole[33:]


def broken():
    """(name, extension, content) of files that cannot be shown and must be taken all the same."""
    whole = {kind: saved(picture(), kind) for kind in ["png", "jpg", "gif", "webp"]}
    whole["pdf"] = pdf("1.4")
    for kind, content in whole.items():
        yield f"{kind} cut off", kind, content[:-4]
        yield f"half a {kind}", kind, content[: len(content) // 2]
        yield f"noise that begins as {kind}", kind, content[:12] + chance.randbytes(300)
    yield "png of no pixels", "png", raw_png(0, 0)
    yield "png without IHDR", "png", b"\x89PNG\r\n\x1a\n" + chunk(b"IEND", b"")
    yield "png whose chunk is longer than the file", "png", b"\x89PNG\r\n\x1a\n\x7f\xff\xff\xffIHDR"


def bad():
    """(name, extension, declared type, content) of files that must be refused."""
    whole = {kind: saved(picture(), kind) for kind in ["png", "jpg", "gif", "webp"]}
    whole["pdf"] = pdf("1.4")
    for kind, content in whole.items():
        own = TYPES[kind]
        for what, tail in [("a script", SCRIPT), ("a zip", ZIP), ("one byte", b"x"), ("itself", content)]:
            # A camera writes several pictures one behind the other.
            if kind in ("pdf", "jpg") and what == "itself":
                continue
            yield f"{kind} and {what} behind it", kind, own, content + tail
        yield f"{kind} behind other bytes", kind, own, b"\n" + content
        yield f"{kind} declared as HTML", kind, "text/html", content
        yield f"{kind} declared as bytes", kind, "application/octet-stream", content
        for other in TYPES:
            if other != kind:
                yield f"{kind} named .{other}", other, own, content
        yield f"{kind} named .html", "html", own, content
        yield f"{kind} named .png.exe", "png.exe", own, content
    yield "svg", "svg", "image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    yield "svg named .png", "png", "image/png", b"<svg xmlns='http://www.w3.org/2000/svg'/>"
    yield "html", "html", "text/html", SCRIPT
    yield "html named .gif", "gif", "image/gif", b"<html>" + SCRIPT
    yield "a script that begins as gif", "gif", "image/gif", b"GIF89a/*" + SCRIPT + b"*/=1;"
    yield "nothing", "png", "image/png", b""
    yield "one byte", "pdf", "application/pdf", b"%"
    yield "a program", "pdf", "application/pdf", b"MZ" + b"\0" * 500
    yield "a zip", "zip", "application/zip", ZIP
    yield "bmp", "bmp", "image/bmp", saved(picture(), "bmp")
    yield "tiff", "tiff", "image/tiff", saved(picture(), "tiff")
    yield "ico", "ico", "image/x-icon", saved(picture((32, 32)), "ico")
    yield "wave", "webp", "image/webp", b"RIFF" + struct.pack("<I", 4) + b"WAVE"
    yield "png bomb by its head", "png", "image/png", raw_png(60_000, 60_000)
    rows = zlib.compress(b"\0" * 1000)
    yield "png of 20,001 pixels a side", "png", "image/png", raw_png(20_001, 20_001, rows)
    yield "pdf of more than ten mebibytes", "pdf", "application/pdf", (
        b"%PDF-1.4\n" + b" " * (10 * 1024 * 1024) + b"\n%%EOF\n")


def main():
    table, wrong = [], []

    def note(name, expected, found):
        table.append((name, expected, found))
        if expected != found:
            wrong.append(f"{name}: {found}, expected {expected}")

    whole = [(*each, True) for each in good()]
    for name, extension, content, has_preview in whole + [(*each, False) for each in broken()]:
        kind = TYPES.get(extension, "image/jpeg")
        status, answer = upload(facts, f"a.{extension}", kind, content)
        found = "taken" if status == 200 else f"{status} {answer.get('code')} {answer.get('detail')}"
        note(name, "taken", found)
        if status == 200:
            file = answer["attachments"][0]["id"]
            if download(facts, file) != (200, content):
                wrong.append(f"{name}: does not come back as it was")
            status, small = download(facts, file, suffix="/preview")
            if status == 200 and (b"a secret place" in small or b"alert" in small):
                wrong.append(f"{name}: the preview shows what is hidden in the file")
            if status != 200 and extension != "pdf" and has_preview:
                wrong.append(f"{name}: has no preview ({status})")
    for name, extension, kind, content in bad():
        status, answer = upload(facts, f"a.{extension}", kind, content)
        expected = "413" if "more than ten" in name else "415"
        note(name, expected, str(status) if status != 200 else "taken")
    if facts["table"]:
        for name, expected, found in table:
            print(f"{name:<45} {expected:<6} {found}")
    taken = sum(1 for _, expected, _ in table if expected == "taken")
    print(f"{len(table)} files, {taken} to be taken, {len(table) - taken} to be refused, "
          f"{len(wrong)} not as they should be")
    for line in wrong:
        print(f"WRONG {line}")
    return 1 if wrong or len(table) < 120 else 0


sys.exit(main())
