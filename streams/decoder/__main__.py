"""Decodes files of one raw stream each to stdout. Ends with 1 after an error, with 2 for wrong use."""

import sys
from pathlib import Path

from . import StreamError, decode

if len(sys.argv) < 2:
    print("usage: python3 -m decoder FILE...", file=sys.stderr)
    sys.exit(2)
for path in sys.argv[1:]:
    try:
        sys.stdout.buffer.write(decode(Path(path).read_bytes()))
    except (StreamError, OSError) as error:
        sys.exit(f"{path}: {error}")
