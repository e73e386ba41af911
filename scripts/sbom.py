"""Writes what a wheel of laneshift holds and asks for, as a CycloneDX 1.6 document.

    python scripts/sbom.py WHEEL BUNDLED_JSON > FILE

BUNDLED_JSON is what ``sbt spark/bundled`` has written: the libraries inside the plugin's jar. What
the wheel asks for has no version here, since whoever installs it chooses one; the range is a
property. The same wheel gives the same document: its time is ``SOURCE_DATE_EPOCH``.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement

JAR = "laneshift/jars/laneshift-spark.jar"
OURS = "io.github.laneshift"
SPDX = {"Public Domain, per Creative Commons CC0": "CC0-1.0"}
"""What POMs call a licence whose name is not SPDX's."""


def properties(**values: str) -> list[Property]:
    return [Property(name=f"laneshift:{name}", value=value) for name, value in values.items()]


def licensed(*names: str) -> list[LicenseExpression]:
    """One of them, whichever one likes: that is what several in a POM mean."""
    return [LicenseExpression(" OR ".join(SPDX.get(name, name) for name in names))]


def maven(group: str, name: str, version: str) -> PackageURL:
    return PackageURL("maven", group, name, version)


def hashed(content: bytes) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=sha256(content).hexdigest())


def asked_for(metadata: str) -> Iterator[Component]:
    """What the wheel's METADATA asks for: one component for each package, however many extras."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in HeaderParser().parsestr(metadata).get_all("Requires-Dist", []):
        need = Requirement(line)
        extra = re.search(r'extra == "([^"]+)"', str(need.marker or ""))
        if need.name != "laneshift":
            found.setdefault(need.name, []).append((str(need.specifier), extra[1] if extra else ""))
    for name, needs in sorted(found.items()):
        required = any(not extra for _, extra in needs)
        yield Component(
            type=ComponentType.LIBRARY,
            name=name,
            scope=ComponentScope.REQUIRED if required else ComponentScope.OPTIONAL,
            bom_ref=f"pypi:{name}",
            purl=PackageURL("pypi", name=name.lower()),
            properties=[
                p
                for range_, extra in needs
                for p in properties(**{f"range{f':{extra}' if extra else ''}": range_ or "any"})
            ],
        )


def document(wheel: Path, bundled: list[dict[str, object]]) -> Bom:
    with zipfile.ZipFile(wheel) as archive:
        (meta,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata, jar_bytes = archive.read(meta).decode(), archive.read(JAR)
    version = str(HeaderParser().parsestr(metadata)["Version"])
    with zipfile.ZipFile(wheel) as archive, archive.open(JAR) as file:
        text = zipfile.ZipFile(file).read("laneshift-build.properties").decode()
    build = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    inside = [
        Component(
            type=ComponentType.LIBRARY,
            group=str(lib["group"]),
            name=str(lib["name"]),
            version=str(lib["version"]),
            bom_ref=f"jar:{lib['name']}",
            purl=maven(str(lib["group"]), str(lib["name"]), str(lib["version"])),
            licenses=licensed(*map(str, lib["licenses"])),  # type: ignore[call-overload]
            properties=properties(how="its classes are in the jar, under laneshift.shaded"),
        )
        for lib in bundled
    ]
    jar = Component(
        type=ComponentType.LIBRARY,
        group=OURS,
        name="laneshift-spark_2.13",
        version=version,
        bom_ref="jar",
        purl=maven(OURS, "laneshift-spark_2.13", version),
        licenses=licensed("Apache-2.0"),
        hashes=[hashed(jar_bytes)],
        properties=properties(file=JAR, commit=build["commit"]),
        components=inside,
    )
    spark = Component(
        type=ComponentType.LIBRARY,
        group="org.apache.spark",
        name="spark-sql_2.13",
        version=build["spark.version"],
        bom_ref="spark",
        purl=maven("org.apache.spark", "spark-sql_2.13", build["spark.version"]),
        licenses=licensed("Apache-2.0"),
        properties=properties(how="not in the jar: the Spark that runs it has it; any 4.3.x"),
    )
    package = Component(
        type=ComponentType.LIBRARY,
        name="laneshift",
        version=version,
        bom_ref="wheel",
        purl=PackageURL("pypi", name="laneshift", version=version),
        licenses=licensed("Apache-2.0"),
        hashes=[hashed(wheel.read_bytes())],
    )
    needs = list(asked_for(metadata))
    bom = Bom(components=[jar, spark, *needs])
    bom.metadata.component = package
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, str(package.hashes[0].content))
    bom.register_dependency(package, [jar, *needs])
    bom.register_dependency(jar, [*inside, spark])
    return bom


def main(wheel: str, bundled: str) -> None:
    bom = document(Path(wheel), json.loads(Path(bundled).read_text("utf-8")))
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise SystemExit(f"Not a valid CycloneDX document: {problem}")
    print(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
