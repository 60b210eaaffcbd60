"""Shell scripts that run on units (dash, bash, mksh with toybox, busybox), and what they print, read again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from runtime.errors import DeviceError

# Arguments: marker, command. The program's shell prints the marker and its process group, then becomes the program. The
# shell that waits shows nothing of its own ("Killed") and holds none of the program's streams.
# `kill -9 -GROUP` is the one form that all shells understand.
LEAD = """\
exec 3<&0 4>&2 2>/dev/null
setsid sh -c 'printf "%s%s\\n" "$1" $$; shift; exec "$@"' sh "$@" <&3 3<&- 2>&4 4>&- &
exec <&- 3<&- >&- 4>&-
wait $!
status=$?
kill -9 -$!
exit $status
"""

# Arguments: files. Prints for each file one of `outside`, `none`, `file -` or `file x` (executable), then the hashes of
# those files in the same order; an odd name, which sha256sum would escape or break, has its hash in its own line.
LOOK = r"""
cd -P . && root=$PWD || exit
odd='*[\\
]*'
for file; do
  shift
  folder=${file%/*}
  until [ -d "$folder" ]; do folder=${folder%/*}; done
  cd -P -- "$folder" || exit
  case $PWD/ in "$root"/*) inside=x ;; *) inside= ;; esac
  cd "$root" || exit
  if [ -z "$inside" ]; then echo outside; continue; fi
  if [ -L "$file" ] || [ ! -f "$file" ]; then echo none; continue; fi
  mode=-
  [ ! -x "$file" ] || mode=x
  case $file in
  $odd) echo "file $mode $(sha256sum <"$file")" ;;
  *) echo "file $mode"; set -- "$@" "$file" ;;
  esac
done
[ $# = 0 ] || sha256sum "$@"
"""

# Arguments: folders to make. Also clears away what a push that died left a day ago.
PREPARE = r"""
mkdir -p -- "$@" || exit
find . -maxdepth 1 -name 'push-*' -mtime +0 -exec rm -rf {} + 2>/dev/null
exit 0
"""

# Arguments: SHA-256, part, target; for each file. Parts of one folder, which vanishes with the last of them.
INSTALL = r"""
sums() {
  while [ $# -gt 0 ]; do echo "$1  $2"; shift 3; done
}
folder=${2%/*}
if ! bad=$(sums "$@" | sha256sum -c 2>&1); then
  echo "arrived damaged, or the storage is full:" >&2
  echo "$bad" | grep -v ': OK$' | head -n 5 >&2
  exit 1
fi
while [ $# -gt 0 ]; do
  if [ -d "$3" ]; then echo "$3: cannot be written: a folder is in its place" >&2; exit 1; fi
  mv -f -- "$2" "$3" || exit
  shift 3
done
rmdir "$folder" 2>/dev/null
exit 0
"""

NONSENSE = "the unit's answer about its files makes no sense; are sha256sum and a POSIX shell there?"
_FOUND = re.compile(rb"file ([x-])(?: \\?([0-9a-f]{64})\b.*)?")
_HASH = re.compile(rb"\\?([0-9a-f]{64}) [ *].*")


def command_line(folder: str, marker: str, argv: Sequence[str]) -> str:
    """A line for the unit's login shell: makes the folder where it is missing, and runs the program in it."""
    if any("\0" in argument for argument in argv):
        raise DeviceError(f"{argv[0]!r}: an argument cannot hold a zero byte")
    where = _quoted_folder(folder)
    enter = f"cd {where} 2>/dev/null || {{ mkdir -p -m 700 {where} && cd {where}; }}"
    return f"{{ {enter}; }} && exec sh -c {' '.join(map(shlex.quote, [LEAD, 'sh', marker, *argv]))}"


def parse_look(lines: Sequence[bytes], count: int) -> list[tuple[bool, str] | None]:
    """What LOOK says of each file: executable and SHA-256 (empty: no file), None for one outside the folder."""
    hashes = iter(lines[count:])
    states = [_state(line, hashes) for line in lines[:count]]
    if len(states) != count or next(hashes, None) is not None:
        raise DeviceError(NONSENSE)
    return states


def _state(line: bytes, hashes: Iterator[bytes]) -> tuple[bool, str] | None:
    if line in (b"none", b"outside"):
        return (False, "") if line == b"none" else None
    state = _FOUND.fullmatch(line)
    digest = state and (state[2] or _hash(next(hashes, b"")))
    if not state or not digest:
        raise DeviceError(NONSENSE)
    return state[1] == b"x", digest.decode()


def _hash(line: bytes) -> bytes:
    found = _HASH.fullmatch(line)
    return found[1] if found else b""


def _quoted_folder(folder: str) -> str:
    """A leading `~/` is the home of the unit's user; everything else is quoted."""
    if folder.startswith("~/"):
        return f'"$HOME"/{shlex.quote(folder[2:])}'
    return shlex.quote(folder if folder.startswith("/") else f"./{folder}")
