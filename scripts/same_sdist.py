"""Packs a source distribution anew, so that the same files give the same bytes.

    SOURCE_DATE_EPOCH=... python scripts/same_sdist.py FILE.tar.gz

setuptools leaves the files' own times and owners in it, and the time of packing.
"""

from __future__ import annotations

import gzip
import os
import sys
import tarfile
from pathlib import Path


def packed(source: Path, target: Path, time: int) -> None:
    with (
        tarfile.open(source) as old,
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=raw, mtime=time) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            member.mtime = time
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)


def main(name: str) -> None:
    file = Path(name)
    new = file.with_name(file.name + ".new")
    packed(file, new, int(os.environ["SOURCE_DATE_EPOCH"]))
    new.replace(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
