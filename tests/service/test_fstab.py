"""What mount(8) says to mount.remapfs, and what `remapfs mount` is asked for then."""

from __future__ import annotations

import pytest

from remapfs import RemapError
from remapfs.cli.mount import mount
from remapfs.service.fstab import Call, arguments, read_call


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["/a", "/m", "-o", "ro"], Call("/a", "/m", "ro", fake=False)),
        (
            ["/a", "/m", "-n", "-v", "-s", "-o", "ro", "-o", "nofail"],
            Call("/a", "/m", "ro,nofail", fake=False),
        ),
        (["-sf", "/a", "/m"], Call("/a", "/m", "", fake=True)),
        (["/a", "/m", "-t", "remapfs", "-N", "/proc/1/ns/mnt"], Call("/a", "/m", "", fake=False)),
    ],
)
def test_the_command_line_of_mount_is_read(words: list[str], call: Call) -> None:
    """In any order, as mount(8) writes it."""
    assert read_call(words) == call


def test_options_become_those_of_remapfs() -> None:
    """Underscores may stand for dashes, colons part several values; what is mount(8)'s own is left out."""
    own = "rw,nofail,_netdev,x-systemd.requires=data.mount,comment=x"
    options = f"{own},preset=a:b,allow_other,threads=3,set=prefix=m."
    assert arguments(Call("/a", "/m", options, fake=False), mount) == [
        *("--background", "--preset", "a", "--preset", "b", "--allow-other", "--threads", "3"),
        *("--set", "prefix=m.", "--", "/a", "/m"),
    ]


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("presets=x", "did you mean 'preset'?"),
        ("nonsense", "the options are those of `remapfs mount`"),
        ("remount", "unmount it and mount it again"),
        ("background", "it goes on by itself"),
        ("private=1", "write  private"),
        ("mountpoint=/b", "the options are those"),
    ],
)
def test_an_option_that_it_does_not_take_is_refused(option: str, hint: str) -> None:
    """Rather than ignored: a mistake in fstab would be found too late."""
    with pytest.raises(RemapError) as error:
        arguments(Call("/a", "/m", option, fake=False), mount)
    assert hint in error.value.hint


@pytest.mark.parametrize("words", [["/a"], ["/a", "/m", "/x"], ["/a", "/m", "-z"], []])
def test_a_call_that_mount_does_not_make_is_refused(words: list[str]) -> None:
    """One source, one mount point, known switches."""
    with pytest.raises(RemapError):
        read_call(words)
