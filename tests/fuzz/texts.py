"""A coverage-guided fuzzer: whatever is typed, sent or put into a file is read, or refused.

    make fuzz                       a minute
    make fuzz SECONDS=3600          an hour

It ends with an error at the first exception that is not ours, or input that takes two seconds.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["duly"]):
    from tests.fuzz.readers import READERS, attempt

NAMES = sorted(READERS)


def one_input(content: bytes) -> None:
    data = atheris.FuzzedDataProvider(content)
    name = NAMES[data.ConsumeIntInRange(0, len(NAMES) - 1)]
    attempt(name, data.ConsumeUnicode(data.remaining_bytes()))


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
