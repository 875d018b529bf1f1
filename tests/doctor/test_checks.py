"""What is said of a host follows from what was found there, and from what is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remapfs.doctor import Check, Host, Level, Refused, Storage, Works, examine
from remapfs.warm.memory import Memory

NO = Refused("it does not", "do this")
STORAGE = Storage(
    path="/data/v4",
    kind="xfs",
    device="259:1",
    read_ahead=4096,
    bytes=200 << 30,
    shards=95,
    tensors=282_799,
    erofs=Works(),
    reflink=Works(),
    findings=0,
    closed=False,
)
HOST = Host(
    release="6.18.0",
    user=0,
    container=None,
    device=Works(),
    mount=Works("as root"),
    allow_other=True,
    fusepy=Works(),
    erofs=Works("from files, with the image in /run/remapfs"),
    open_files=1 << 20,
    pipe=1 << 20,
    memory=Memory(256 << 30, 250 << 30),
    systemd=True,
    source=STORAGE,
)


def found(host: Host, presenter: str = "fuse") -> dict[str, Check]:
    """Map topics to what is said of them, if that is not simply good."""
    return {check.topic: check for check in examine(host, presenter) if check.level is not Level.GOOD}


def problems(host: Host, presenter: str) -> list[str]:
    """List the topics that keep `presenter` from working."""
    return [topic for topic, check in found(host, presenter).items() if check.level is Level.PROBLEM]


@pytest.mark.parametrize("presenter", ["auto", "fuse", "fusepy", "erofs"])
def test_a_host_that_has_everything_gets_nothing_but_good(presenter: str) -> None:
    """No note, and nothing to do."""
    assert not found(HOST, presenter)
    assert not any(check.do for check in examine(HOST, presenter))


@pytest.mark.parametrize(
    ("lacks", "stops"),
    [
        ({"device": NO}, {"fuse", "fusepy"}),
        ({"mount": NO}, {"fuse", "fusepy"}),
        ({"fusepy": NO}, {"fusepy"}),
        ({"erofs": NO}, {"erofs"}),
        ({"source": replace(STORAGE, erofs=NO)}, {"erofs"}),
        ({"device": NO, "erofs": NO}, {"auto", "fuse", "fusepy", "erofs"}),
        ({"device": NO, "source": replace(STORAGE, erofs=NO)}, {"auto", "fuse", "fusepy", "erofs"}),
        ({"source": NO}, {"auto", "fuse", "fusepy", "erofs"}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_what_is_lacking_is_a_problem_only_for_who_needs_it(
    lacks: dict[str, Refused | Storage], stops: set[str]
) -> None:
    """Each presenter needs its own; `auto` needs one that works."""
    host = replace(HOST, **lacks)  # type: ignore[arg-type]
    assert {each for each in ("auto", "fuse", "fusepy", "erofs") if problems(host, each)} == stops
    for presenter in stops:
        for topic in problems(host, presenter):
            assert found(host, presenter)[topic].do == "do this"


@pytest.mark.parametrize(
    ("differs", "topic", "text", "do"),
    [
        ({"release": "6.8.0"}, "kernel", "O_DIRECT", "newer kernel"),
        ({"container": "podman"}, "container", "podman", "rshared"),
        ({"user": 1000, "allow_other": False}, "users", "only the user", "user_allow_other"),
        ({"systemd": False}, "systemd", "does not run", "--background"),
        ({"open_files": 100}, "open files", "fewer than 95 shards need", "LimitNOFILE"),
        ({"pipe": 65536}, "pipes", "65,536 bytes", "fs.pipe-max-size"),
        ({"memory": Memory(256 << 30, 1 << 20)}, "memory", "1.0 MB available", "limit"),
        ({"memory": Memory(64 << 30, 60 << 30)}, "page cache", "reads the disk again", ""),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_could_be_better_is_a_note_with_what_to_do(
    differs: dict[str, object], topic: str, text: str, do: str
) -> None:
    """It is said, and the host is ready all the same."""
    notes = found(replace(HOST, **differs))  # type: ignore[arg-type]
    assert [*notes] == [topic]
    assert notes[topic].level is Level.NOTE
    assert text in notes[topic].text
    assert do in notes[topic].do


@pytest.mark.parametrize(
    ("differs", "topic", "text", "do"),
    [
        ({"kind": "nfs4"}, "file system", "nfs4", "remapfs warm"),
        ({"kind": "fuse.sshfs"}, "file system", "fuse.sshfs", "remapfs warm"),
        ({"read_ahead": 64}, "read-ahead", "64 KiB on 259:1", "/sys/class/bdi/259:1/read_ahead_kb"),
        ({"reflink": NO}, "reflink", "it does not: an export would be a copy", "mount"),
        ({"reflink": None}, "reflink", "not tried", ""),
        ({"findings": 2}, "source", "2 findings", "remapfs plan /data/v4"),
        ({"closed": True}, "others", "does not let everyone through", "namei -l /data/v4"),
    ],
)
def test_a_source_that_could_lie_better_is_a_note(
    differs: dict[str, object], topic: str, text: str, do: str
) -> None:
    """With the command that shows or changes it."""
    notes = found(replace(HOST, source=replace(STORAGE, **differs)))  # type: ignore[arg-type]
    assert [*notes] == [topic]
    assert notes[topic].level is Level.NOTE
    assert text in notes[topic].text
    assert do in notes[topic].do


def test_a_read_ahead_that_the_kernel_does_not_show_is_no_finding() -> None:
    """Nothing is said of it, rather than something made up."""
    host = replace(HOST, source=replace(STORAGE, read_ahead=None))
    assert "read-ahead" not in {check.topic for check in examine(host, "fuse")}


def test_fuse_is_told_that_erofs_would_be_faster() -> None:
    """And for whom it is none."""
    (erofs,) = (check for check in examine(HOST, "fuse") if check.topic == "erofs")
    assert erofs.level is Level.GOOD
    assert "without O_DIRECT (--presenter erofs)" in erofs.text
