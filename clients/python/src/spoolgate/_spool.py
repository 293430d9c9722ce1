"""The ways to a gate: files in its spool, or frames on its socket. Each waits by yielding how long to sleep, so that a plain
and an asynchronous loop run the same code."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import struct
import time
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any, Dict, Generator, NamedTuple, Optional, Tuple, Union

from ._wire import Request, frame, read_answer

ANSWER_BYTES_MAX = 64 << 20
POLL_S, POLL_MAX_S = 0.005, 0.1
CONTESTED_S = 1.0  # how long an answer may take that shows that another one was another sender's
AGAIN_S = 0.05  # between two connections

Version = Optional[Tuple[int, int]]
Steps = Generator[float, None, Any]
Path = Union[str, "os.PathLike[str]"]


class Answer(NamedTuple):
    """An answer, and which version of its file it was."""

    outcome: str
    whole: Dict[str, Any]
    version: Version = None


class NothingSent(Exception):
    """The gate cannot decide the request, because it did not get it."""


def pauses(deadline: float, longest: float = POLL_MAX_S) -> Generator[float, None, None]:
    """How long to sleep between two looks, until the deadline."""
    pause = POLL_S
    while (left := deadline - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 1.5, longest)


class Folder:
    """An open folder below the home. No link on the way is followed. Agents may make folders in `spool/in`, so one in there is
    used only if it belongs to the owner of `spool` or to root, as the gate uses it."""

    def __init__(self, home: Path, *names: str) -> None:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self.fd, owner = os.open(home, flags), None
        for depth, name in enumerate(names):
            try:
                below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=self.fd)
            except OSError as error:
                raise OSError(error.errno, f"folder `{name}` of the spool: {os.strerror(error.errno or 0)}") from None
            finally:
                os.close(self.fd)
            self.fd, uid = below, os.fstat(below).st_uid
            owner = uid if owner is None else owner
            if depth > 1 and uid not in (owner, 0):
                os.close(self.fd)
                raise PermissionError(
                    errno.EPERM, f"folder `{name}` belongs to user {uid}, not to the gate's user {owner}"
                )

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, *_: Any) -> None:
        os.close(self.fd)


class Spool:
    """The flat spool, or an agent's own one."""

    def __init__(self, home: Path, agent: Optional[str]) -> None:
        own = () if agent is None else (agent,)
        self.home, self.is_own, self.out = home, bool(own), ("spool", "out", *own)
        self.tmp = ("spool", "in", *own, "tmp") if own else ("spool", "in")
        self.new = ("spool", "in", *own, "new") if own else ("spool", "in")

    def ask(self, request: Request, deadline: float) -> Steps:
        """Hands a request in and returns its answer, or ``None`` if none came."""
        try:
            sent = self._hand_in(request)
        except OSError as error:
            raise NothingSent(error.strerror or str(error)) from None
        for pause in pauses(deadline):
            found = sent.look()
            if found:
                return found
            yield pause
        return sent.look()

    def next_answer(self, request: Request, last: Answer, deadline: float) -> Steps:
        """Returns the answer that replaces an interim one."""
        for pause in pauses(deadline):
            found = self.fresh(request.file_name, last.version, request.id)
            if found and found.outcome != "held":
                return found
            yield pause
        return None

    def version(self, folder: Tuple[str, ...], name: str) -> Version:
        """Which file is there: inode and time of change."""
        try:
            with Folder(self.home, *folder) as fd:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            return (found.st_ino, found.st_mtime_ns)
        except OSError:
            return None

    def fresh(self, name: str, before: Version, id: Optional[str] = None) -> Optional[Answer]:
        """The answer in a file, if it is another version than ``before``, and to the request of this id."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            with Folder(self.home, *self.out) as folder:
                file = open(os.open(name, flags, dir_fd=folder), "rb")
            with file:
                found = os.fstat(file.fileno())
                version = (found.st_ino, found.st_mtime_ns)
                if version == before or not stat.S_ISREG(found.st_mode) or found.st_size > ANSWER_BYTES_MAX:
                    return None
                read = read_answer(file.read(ANSWER_BYTES_MAX))
        except OSError:
            return None
        is_ours = read and (id is None or read[1].get("requestId") == id)
        return Answer(*read, version) if read and is_ours else None

    def _hand_in(self, request: Request) -> Sent:
        """Links the whole and durable file to its name. An ``OSError`` means that nothing was handed in."""
        hidden, stem, more, is_in = f".{secrets.token_hex(16)}.tmp", request.file_name[:-5], 0, False
        with Folder(self.home, *self.tmp) as tmp, Folder(self.home, *self.new) as new, Folder(self.home, *self.out):
            fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=tmp)
            try:
                with open(fd, "wb") as file:
                    file.write(request.bytes)
                    file.flush()
                    os.fchmod(
                        fd, stat.S_IMODE(os.fstat(fd).st_mode) | stat.S_IRGRP
                    )  # the gate may read it by its group
                    os.fsync(fd)
                    inode = os.fstat(fd).st_ino
                while not is_in:
                    name = f"{stem}.{more}.json" if more else f"{stem}.json"
                    before = self.version(self.out, request.file_name), self.version(self.out, f"{name}.error.json")
                    try:
                        os.link(hidden, name, src_dir_fd=tmp, dst_dir_fd=new, follow_symlinks=False)
                        is_in = True
                    except FileExistsError:
                        more += 1
            finally:
                try:
                    os.unlink(hidden, dir_fd=tmp)
                except OSError:
                    if not is_in:
                        raise
            try:
                readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=new)
                try:
                    os.fsync(readable)
                finally:
                    os.close(readable)
            except OSError:
                pass  # agents cannot read the flat spool, and the request is handed in whether this succeeds or not
        return Sent(self, request, name, inode, before, more > 0)


class Sent:
    """A file that was handed in, and where its answer will be."""

    def __init__(
        self, spool: Spool, request: Request, name: str, inode: int, before: Tuple[Version, Version], more: bool
    ) -> None:
        self.spool, self.request, self.name, self.inode = spool, request, name, inode
        self.before, self.before_error = before
        self.is_contested, self.since = more, None  # type: bool, Optional[float]

    def waits(self) -> bool:
        """Whether the gate has not taken the file yet, as far as anybody can tell."""
        try:
            with Folder(self.spool.home, *self.spool.new) as fd:
                return os.stat(self.name, dir_fd=fd, follow_symlinks=False).st_ino == self.inode
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def look(self) -> Optional[Answer]:
        """The answer to this file. One under the id may be another file's that has the same id, and one under the file's name
        another sender's that used the same name: so neither counts while this file waits, or while the other may follow.
        """
        by_id = self.spool.fresh(self.request.file_name, self.before, self.request.id)
        # Only after the answer was read: what is read before the gate takes the file is another's, what is read later may be ours.
        if self.waits():
            if by_id:
                self.before, self.is_contested = by_id.version, True
            return None
        by_name = self.spool.fresh(f"{self.name}.error.json", self.before_error)
        error = by_name and by_name.whole.get("error")
        if by_id and by_name and isinstance(error, dict) and error.get("code") == "REQUEST_ID_CONFLICT":
            return by_name
        if by_id and not self.is_contested:
            return by_id
        found = by_id or by_name
        if found:
            self.since = self.since or time.monotonic()
            if self.spool.is_own and not by_id or time.monotonic() - self.since >= CONTESTED_S:
                return found
        return None


class Socket:
    """Frames on a gate's socket, one connection per request: a gate serves one client of a user at a time."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)

    def ask(self, request: Request, deadline: float) -> Steps:
        """Sends a request until it is answered. Returns ``None`` if no answer came."""
        is_sent = False
        while True:
            with socket(AF_UNIX, SOCK_STREAM) as gate:
                gate.setblocking(False)
                try:
                    gate.connect(self.path)
                    is_sent = True
                    found = yield from self._exchange(gate, request, deadline)
                    if found:
                        return found
                except BlockingIOError:
                    pass  # many are waiting to connect
                except OSError as error:
                    if not is_sent:
                        raise NothingSent(f"no gate answers at `{self.path}`: {error.strerror}") from None
            if time.monotonic() >= deadline:
                return None
            yield AGAIN_S

    def next_answer(self, request: Request, last: Answer, deadline: float) -> Steps:
        """Returns the answer that replaces an interim one, asking for it again and again."""
        for pause in pauses(deadline, longest=5.0):
            found = yield from self.ask(request, deadline)
            if found and found.outcome != "held":
                return found
            yield pause
        return None

    def _exchange(self, gate: socket, request: Request, deadline: float) -> Steps:
        out, got = memoryview(frame(request.bytes)), bytearray()
        for pause in pauses(deadline, longest=0.02):
            try:
                while out:
                    out = out[gate.send(out) :]
            except BlockingIOError:
                pass
            except OSError:
                out = out[len(out) :]  # closed unread; an answer may be there all the same
            try:
                while piece := gate.recv(1 << 16):
                    got += piece
                is_closed = True
            except BlockingIOError:
                is_closed = False
            while len(got) >= 4:
                (length,) = struct.unpack_from(">I", got)
                if length > ANSWER_BYTES_MAX:
                    return None
                if len(got) < 4 + length:
                    break
                read = read_answer(bytes(got[4 : 4 + length]))
                del got[: 4 + length]
                if read and read[1].get("requestId") in (request.id, "", "unknown"):
                    return Answer(*read)
            if is_closed:
                return None
            yield pause
        return None
