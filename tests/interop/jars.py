"""The jars of Apache's systems, gRPC and Spark's Kafka source, and the Java for them.

Ivy and Janino come with PySpark, which the tests have anyway. Ivy installs the jars of a version
from Maven Central, once for each version; its own cache in the user's home serves other checkouts.
Janino runs a program from its source, so a Java without a compiler will do.

`python -m tests.interop.jars VERSION` installs them, for the Makefile.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from quire.cluster.zookeeper.java import find_jars, find_java
from quire.errors import ConfigurationError

CACHE = Path(__file__).resolve().parents[2] / "build" / "interop"
NEWEST = "4.18.0"
KAFKA = "3.9.1"
GRPC = "1.68.2"
PROTOBUF = "3.25.5"
"""The release that GRPC was built with."""
COMPILER = "3.39.0"
"""Eclipse's compiler of Java: a jar, so a Java without a compiler will do."""
MACHINES = {"x86_64": "linux-x86_64", "aarch64": "linux-aarch_64"}
SPARK_KAFKA = "4.2.0"
"""The newest that Maven Central has: PySpark 4.3 came without one."""
PULSAR = "3.0.7"
Artifact: TypeAlias = tuple[str, str, str]
"""Organisation, name and version."""

INSTALL_SECONDS = 600.0
WANTED = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="quire" module="interop"/>
<configurations><conf name="default"/></configurations><dependencies>
{}</dependencies></ivy-module>
"""
DEPENDENCY = """<dependency org="{}" name="{}" rev="{}" conf="default" transitive="{}"/>
"""
PROGRAM = """<dependency org="{0}" name="{1}" rev="{2}" conf="default" transitive="false">
<artifact name="{1}" type="exe" ext="exe" m:classifier="{3}"/></dependency>
"""
BESIDE = ("org.apache.logging.log4j", "log4j-api", "2.18.0")
"""Named by no file that Ivy reads for 4.16; a release that wants a later one gets that."""

POOL = ("org.apache.commons", "commons-pool2", "2.12.1")
"""What Spark's Kafka source needs besides Kafka's client; the rest comes with PySpark."""

KINDS = ("jar", "bundle", "nar")
"""Kinds of artifact that are jars: some of BookKeeper's own are published as nar."""

JANINO = "org.codehaus.commons.compiler.AbstractJavaSourceClassLoader"


class JarsMissingError(Exception):
    """The jars cannot be had, with the reason."""


def install(version: str = NEWEST, cache: Path = CACHE) -> Path:
    """Return the directory of a version's jars, installed if it is missing.

    Raises `JarsMissingError`, `ConfigurationError` without Java or PySpark.
    """
    wanted = (("org.apache.bookkeeper", "bookkeeper-server", version), BESIDE)
    return _install("Apache BookKeeper", version, wanted, cache)


def _install(
    title: str,
    version: str,
    wanted: Sequence[Artifact],
    cache: Path,
    alone: bool = False,
) -> Path:
    place = cache / version
    jars, done = place / "lib", place / "installed"
    if not done.is_file():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        print(f"installing {title} {version} into {place}", flush=True)
        _retrieve(f"{title} {version}", wanted, jars, alone)
        done.touch()
    return jars


def install_kafka(version: str = KAFKA, cache: Path = CACHE) -> Path:
    """Return the directory of the jars of Kafka's clients and tools, as `install` does.

    Raises `JarsMissingError`, `ConfigurationError` without Java or PySpark.
    """
    names = ("kafka-tools", "kafka_2.13")
    wanted = [("org.apache.kafka", name, version) for name in names]
    return _install("Apache Kafka", f"kafka-{version}", wanted, cache)


def install_spark_kafka(cache: Path = CACHE) -> list[Path]:
    """Return the jars of Spark's own Kafka source and sink, as `install` does.

    Raises `JarsMissingError`, `ConfigurationError` without Java or PySpark.
    """
    names = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13")
    wanted = [*(("org.apache.spark", name, SPARK_KAFKA) for name in names), POOL]
    version = f"kafka-of-spark-{SPARK_KAFKA}"
    own = _install("Spark's Kafka source", version, wanted, cache, alone=True)
    return [*sorted(own.glob("*.jar")), install_kafka(cache=cache) / f"kafka-clients-{KAFKA}.jar"]


def install_grpc(version: str = GRPC, cache: Path = CACHE) -> tuple[Path, Path]:
    """Return the directories of gRPC's jars with a compiler of Java, and of `protoc` with its
    plugin for Java, installed if they are missing.

    Raises `JarsMissingError`, also for a machine that neither is published for;
    `ConfigurationError` without Java or PySpark.
    """
    machine = MACHINES.get(platform.machine())
    if machine is None:
        raise JarsMissingError(f"protoc is not published for {platform.machine()}")
    names = ("grpc-netty-shaded", "grpc-protobuf", "grpc-stub")
    wanted = [("io.grpc", name, version) for name in names]
    jars = _install(
        "gRPC",
        f"grpc-{version}",
        [*wanted, ("org.eclipse.jdt", "ecj", COMPILER)],
        cache,
    )
    programs, done = jars.parent / "bin", jars.parent / "programs"
    if not done.is_file():
        texts = [
            PROGRAM.format("com.google.protobuf", "protoc", PROTOBUF, machine),
            PROGRAM.format("io.grpc", "protoc-gen-grpc-java", version, machine),
        ]
        _ask_ivy("protoc", texts, programs / "[artifact]", ("exe",))
        for each in programs.iterdir():
            each.chmod(0o755)
        done.touch()
    return jars, programs


def install_pulsar(version: str = PULSAR, cache: Path = CACHE) -> Path:
    """Return the directory of the jars that make Pulsar's entries and topics, as `install` does.

    Raises `JarsMissingError`, `ConfigurationError` without Java or PySpark.
    """
    names = ("managed-ledger", "pulsar-common")
    wanted = [("org.apache.pulsar", name, version) for name in names]
    return _install("Apache Pulsar", f"pulsar-{version}", [*wanted, BESIDE], cache)


def install_dlog(version: str = NEWEST, cache: Path = CACHE) -> Path:
    """Return the directory of the jars that make DistributedLog's logs, as `install` does.

    Raises `JarsMissingError`, `ConfigurationError` without Java or PySpark.
    """
    wanted = [("org.apache.distributedlog", "distributedlog-core", version), BESIDE]
    return _install("Apache DistributedLog", f"dlog-{version}", wanted, cache)


def program(source: Path) -> tuple[str, ...]:
    """Return the words of a `java` command that compile and run a source file.

    Other classes are found in files of their names beside it.
    """
    return JANINO, "-sourcepath", str(source.parent), source.stem


def _retrieve(title: str, wanted: Sequence[Artifact], jars: Path, alone: bool) -> None:
    others = str(not alone).lower()
    texts = [DEPENDENCY.format(*each, others) for each in wanted]
    _ask_ivy(title, texts, jars / "[artifact]-[revision](-[classifier]).jar", KINDS)


def _ask_ivy(title: str, wanted: Sequence[str], pattern: Path, kinds: Sequence[str]) -> None:
    ivy = pattern.parent.parent / "ivy.xml"
    ivy.write_text(WANTED.format("".join(wanted)))
    command: tuple[str | Path, ...] = (
        *(find_java(), "-jar", of_pyspark("ivy"), "-warn", "-confs", "default"),
        *("-ivy", ivy, "-types"),
        *kinds,
        *("-retrieve", pattern),
    )
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise JarsMissingError(
            f"{title} did not come within {INSTALL_SECONDS:g} s: these tests "
            "need Maven Central, or jars that Ivy has in its cache (~/.ivy2)"
        ) from error
    said = done.stdout + done.stderr
    if done.returncode or "UNRESOLVED DEPENDENCIES" in said or "FAILED DOWNLOADS" in said:
        lines = [line for line in said.splitlines() if line.strip()]
        raise JarsMissingError(
            f"Ivy cannot get {title}: these tests need Maven Central, or jars "
            "that Ivy has in its cache (~/.ivy2). It says:\n" + "\n".join(lines[-20:])
        )


def of_pyspark(name: str) -> Path:
    """Return a jar that PySpark brings. Raises `ConfigurationError`."""
    folder = find_jars()[0].parent
    found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
    if not found:
        raise ConfigurationError(f"{folder} lacks the jar {name}: install the group test")
    return found[-1]


def class_path(jars: Path) -> str:
    """Return the class path of servers and clients.

    ZooKeeper's server needs two jars that do not come with BookKeeper's.
    """
    beside = map(of_pyspark, ("metrics-core", "snappy-java", "janino", "commons-compiler"))
    return ":".join([f"{jars}/*", *map(str, beside)])


if __name__ == "__main__":
    try:
        install(sys.argv[1] if len(sys.argv) > 1 else NEWEST)
        install_kafka()
        install_grpc()
        install_spark_kafka()
        install_pulsar()
        install_dlog()
    except (ConfigurationError, JarsMissingError) as error:
        sys.exit(f"{error}\nThe tests that need it will fail.")
