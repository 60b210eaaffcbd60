"""Shell scripts that run on units (dash, bash, mksh with toybox, busybox), and the parsers of what they print."""

import dataclasses
import re
import shlex
from collections.abc import Iterator, Sequence

from runtime.errors import DeviceError

# Arguments: marker, command. The program's shell prints the marker and its process group, then becomes the program. The
# shell that waits shows nothing of its own ("Killed") and holds none of the program's streams.
# `kill -9 -GROUP` is the one form that all shells understand.
LAUNCH = """\
exec 3<&0 4>&2 2>/dev/null
setsid sh -c 'printf "%s%s\\n" "$1" $$; shift; exec "$@"' sh "$@" <&3 3<&- 2>&4 4>&- &
exec <&- 3<&- >&- 4>&-
wait $!
status=$?
kill -9 -$!
exit $status
"""

# Functions that print for each file `outside` (of the unit's folder), `folder`, `none N` (N of its folders are missing
# too), `file -` or `file x` (executable); then the hashes of those files in the same order, by the program `hasher` of
# the unit, where there is one that works, else by sha256sum, else (Android 7) each is `unknown`. An odd name, which
# sha256sum would escape or break, has its hash in its own line. All of it is printed at once: adb carries each write in
# a packet that is answered.
_INSPECTION = r"""
cd -P . && root=$PWD || exit
odd='*[\\
]*'
hashes() {
  if [ "$hasher" ] && found=$("$hasher" sha256 "$@" 2>/dev/null); then
    echo "$found"
  elif command -v sha256sum >/dev/null; then
    sha256sum "$@"
  else
    for file; do echo unknown; done
  fi
}
look_at_folder() {
  folder=$1
  missing=0
  until [ -d "$folder" ]; do
    folder=${folder%/*}
    missing=$((missing + 1))
  done
  cd -P -- "$folder" || exit
  case $PWD/ in "$root"/*) inside=x ;; *) inside= ;; esac
  cd "$root" || exit
}
inspect() {
  last=
  for file; do
    shift
    if [ "${file%/*}" != "$last" ]; then
      last=${file%/*}
      look_at_folder "$last"
    fi
    if [ -z "$inside" ]; then echo outside; continue; fi
    if [ -d "$file" ]; then echo folder; continue; fi
    if [ -L "$file" ] || [ ! -f "$file" ]; then echo "none $missing"; continue; fi
    mode=-
    [ ! -x "$file" ] || mode=x
    case $file in
    $odd) echo "file $mode $(sha256sum <"$file" 2>/dev/null || echo unknown)" ;;
    *) echo "file $mode"; set -- "$@" "$file" ;;
    esac
  done
  [ $# = 0 ] || hashes "$@"
}
inspect_at_once() {
  found=$(inspect "$@") || return
  echo "$found"
}
"""

# Functions that move the content of folders of a push to its places. Arguments: folder of a push that is done with this
# (else empty); then pairs of a folder in a push and one that is there, into which its content is moved: what is new in
# one folder moves at once. Also clears away what a push that died left more than a day ago: `+0` would do by POSIX, but
# toybox does not round down to days and takes it for `older than now`, which is another push at work.
_INSTALLATION = r"""
move() {
  from=$1 into=$2
  for pattern in '*' '.[!.]*' '..?*'; do
    set -- "$from"/$pattern
    if [ -e "$1" ]; then mv -f -- "$@" "$into/" || return; fi
  done
}
install_push() {
  push=$1
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    move "$1" "$2" || return
    shift 2
  done
  echo installed
  [ "$push" ] || return 0
  rm -rf "$push"
  find . -maxdepth 1 -name 'push-*' -mtime +1 -exec rm -rf {} + 2>/dev/null
  return 0
}
"""

# Arguments: a program of the unit that hashes files faster than sha256sum does, or nothing; files.
INSPECT = _INSPECTION + 'hasher=$1; shift; inspect_at_once "$@"\n'

# Arguments: see install_push.
INSTALL = _INSTALLATION + 'install_push "$@"\n'

# Stays for all pushes of a connection, since each start of a program takes a phone longer than all of this. Reads
# commands, each a line of quoted words: `inspect` with the arguments of INSPECT; or `receive`, a program of the unit
# that hashes files while they arrive, what INSTALL takes, `--`, and a size and a file, as often as there are files.
# After the latter a line says that all were sent; `file - HASH` or `file x HASH` is printed for each; another line says
# that all are right, and they are installed. Ends where anything of this fails.
SERVE = (
    _INSPECTION
    + _INSTALLATION
    + r"""
arriving() {
  until [ "$1" = -- ]; do shift; done
  shift
  exec "$hasher" arriving "$@"
}
while IFS= read -r line; do
  eval "set -- $line"
  command=$1 hasher=$2
  shift 2
  case $command in
  inspect) inspect_at_once "$@" || exit ;;
  receive)
    (arriving "$@") || exit
    read -r go || exit
    install_push "$@" || exit
    ;;
  esac
done
"""
)

UNREADABLE_ANSWER = "the unit's answer about its files makes no sense; is a POSIX shell there?"
UNKNOWN = b"unknown"
_ANSWER = re.compile(rb"outside|folder|none (\d{1,4})|file ([x-])(?: (?:\\?([0-9a-f]{64})\b.*|(unknown)))?")
_HASH_FOLLOWS = (b"file -", b"file x")
_HASH = re.compile(rb"\\?([0-9a-f]{64}) [ *].*")

FileState = tuple[bool, str]  # whether a file is executable, and its SHA-256, empty where the unit cannot tell


@dataclasses.dataclass(frozen=True)
class PathStatus:
    """What was found at a path on the unit.

    Attributes:
        state: mode and hash of a regular file; None for anything else.
        outside: whether the path leaves the unit's folder through a link.
        missing: how many of the folders that lead there are missing.
    """

    state: FileState | None = None
    outside: bool = False
    is_folder: bool = False
    missing: int = 0


def command_line(folder: str, marker: str, argv: Sequence[str]) -> str:
    """The line for the unit's login shell that makes the folder if it is missing and runs the program in it."""
    if any("\0" in argument for argument in argv):
        raise DeviceError(f"{argv[0]!r}: an argument cannot hold a zero byte")
    quoted = _quoted_folder(folder)
    enter = f"cd {quoted} 2>/dev/null || {{ mkdir -p -m 700 {quoted} && cd {quoted}; }}"
    return f"{{ {enter}; }} && exec sh -c {' '.join(map(shlex.quote, [LAUNCH, 'sh', marker, *argv]))}"


def for_any_shell(line: str) -> str:
    """A line for a login shell that is no POSIX shell (fish, tcsh), which has `sh` run another one.

    What such shells take otherwise within single quotes stands in octal.
    """
    for character in "\\'!\n":
        line = line.replace(character, f"\\0{ord(character):03o}")
    return f"""exec sh -c 'eval "$(printf %b "$1")"' sh '{line}'"""


def parse_inspection(lines: Sequence[bytes], count: int) -> list[PathStatus]:
    """Parses the output of INSPECT: one status for each file; raises DeviceError for anything else."""
    hashes = iter(lines[count:])
    statuses = [_path_status(line, hashes) for line in lines[:count]]
    if len(statuses) != count or next(hashes, None) is not None:
        raise DeviceError(UNREADABLE_ANSWER)
    return statuses


def hash_lines(lines: Sequence[bytes]) -> int:
    """How many lines with hashes follow those of an inspection's files."""
    return sum(line in _HASH_FOLLOWS for line in lines)


def _path_status(line: bytes, hashes: Iterator[bytes]) -> PathStatus:
    answer = _ANSWER.fullmatch(line)
    if not answer:
        raise DeviceError(UNREADABLE_ANSWER)
    if not answer[2]:
        return PathStatus(outside=line == b"outside", is_folder=line == b"folder", missing=int(answer[1] or 0))
    digest = answer[3] or answer[4] or _hash(next(hashes, b""))
    return PathStatus(state=(answer[2] == b"x", "" if digest == UNKNOWN else digest.decode()))


def _hash(line: bytes) -> bytes:
    if line == UNKNOWN:
        return line
    if match := _HASH.fullmatch(line):
        return match[1]
    raise DeviceError(UNREADABLE_ANSWER)


def _quoted_folder(folder: str) -> str:
    """Quotes a folder for the shell; a leading `~/` stands for the home of the unit's user."""
    if folder.startswith("~/"):
        return f'"$HOME"/{shlex.quote(folder[2:])}'
    return shlex.quote(folder if folder.startswith("/") else f"./{folder}")
