"""What a comparison finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Equal:
    """Everything is what it must be: `compared` is the number of bytes that were read on either side."""

    files: int
    shards: int
    tensors: int
    compared: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference, in the order of the paths.

    `tensor` is the presented name of the tensor it lies in, if it lies in one, `offset` the byte in the file,
    if one is known.
    """

    file: str
    text: str
    tensor: str | None = None
    offset: int | None = None
