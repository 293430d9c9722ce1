#!/usr/bin/env python3
"""An adapter for `email.send`, `email.draft` and `email.fetch` that keeps mail in a maildir. It sends nothing: another
program, such as a mail server's pickup or a person with a mail reader, takes it from there.

Python 3.8 or later, standard library only. In rules/gateway.yaml:

    adapters:
      - actions: [email.send, email.draft, email.fetch]
        adapter: exec
        command:
          program: python3
          args: [adapters/maildir.py, mail, --from, assistant@example.com]
          time_limit_s: 30
          output_bytes_max: 1048576
          write: [mail]

Programs run in the home, so `adapters/maildir.py` and `mail` are below it; both may be absolute paths. The maildir is made
where it is not there. Mail that is sent goes to the folder `Sent`, drafts go to `Drafts`; both are maildirs below the maildir
(`.Sent`, `.Drafts`), as Maildir++ has them. `email.fetch` reads `INBOX`, which is the maildir itself, or such a folder.

Standard input is one JSON object, the task; standard output one JSON object, what came of it. It ends with
exit code 0 where it knows what came of it, and with another where it does not.

A task is named by `source` and `id`. One that was done before is not done again: a message is written under a name made
of both, and where that name is taken, the answer is success with `"again": true`.
"""

import argparse
import contextlib
import datetime
import email
import email.policy
import email.utils
import errno
import hashlib
import json
import os
import sys
from email.message import EmailMessage

FOLDERS = {"email.send": "Sent", "email.draft": "Drafts"}
BODY_BYTES_MAX = 20_000  # of one message that is fetched; the rest of its text is left out
FETCHED_BYTES_MAX = 900_000  # of all of them; the rest of them are left out, below `output_bytes_max` of the rules


class Failed(Exception):
    """Something that was not done, and why."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.message = message


def folder_path(maildir, name):
    """The maildir of a folder. Its name is one path element, whoever asks."""
    if name == "INBOX":
        return maildir
    plain = name and len(name) <= 100 and not name.startswith(".") and all(c.isalnum() or c in " ._-" for c in name)
    if not plain:
        raise Failed("FOLDER", "a folder has letters, digits, spaces, `.`, `_` and `-` in its name")
    return os.path.join(maildir, "." + name)


def sync_dir(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make(folder):
    for part in ("tmp", "new", "cur"):
        os.makedirs(os.path.join(folder, part), mode=0o700, exist_ok=True)


def one_line(text, what):
    """A header's text. Line breaks would begin another header."""
    if any(ord(c) < 32 or ord(c) == 127 or c in "\x85\u2028\u2029" for c in text):
        raise Failed("HEADER", f"`{what}` holds a control character")
    return text


def message_of(task, sender):
    payload = task["payload"]
    message = EmailMessage(policy=email.policy.default)
    try:
        message["From"] = one_line(sender, "from")
        message["To"] = ", ".join(one_line(address, "to") for address in payload["to"])
        if payload.get("cc"):
            message["Cc"] = ", ".join(one_line(address, "cc") for address in payload["cc"])
        message["Subject"] = one_line(payload["subject"], "subject")
        message["Date"] = email.utils.format_datetime(datetime.datetime.now(datetime.timezone.utc))
        message["Message-ID"] = f"<{name_of(task)}@{task['host']}>"
        if "replyToMessageId" in payload:
            answered = one_line(payload["replyToMessageId"], "replyToMessageId")
            message["In-Reply-To"] = answered
            message["References"] = answered
        message.set_content(payload["body"])
        return message.as_bytes()
    except (ValueError, UnicodeError) as error:
        raise Failed("MESSAGE", f"no message can be made of it: {error}") from error


def name_of(task):
    """The same for the same task, and for no other."""
    key = json.dumps([task["source"], task["id"]]).encode()
    return hashlib.sha256(key).hexdigest()[:40]


def is_there(folder, name):
    """Whether a message was written, and perhaps read and flagged since."""
    if os.path.exists(os.path.join(folder, "new", name)):
        return True
    return any(entry.split(":", 1)[0] == name for entry in os.listdir(os.path.join(folder, "cur")))


def keep(task, maildir, sender):
    kind = FOLDERS[task["action"]]
    folder = folder_path(maildir, kind)
    content = message_of(task, sender)
    name = name_of(task)
    data = {"folder": kind, "messageId": f"<{name}@{task['host']}>"}
    try:
        make(folder)
        if is_there(folder, name) or not put(folder, name, content):
            return {**data, "again": True}
    except OSError as error:
        raise Failed(errno.errorcode.get(error.errno, "OS"), f"not written: {error}") from error
    # Where this fails, the message is there, perhaps not for long: that is not to say that it was not done.
    sync_dir(os.path.join(folder, "new"))
    return data


def put(folder, name, content):
    """Writes a message. False: it is there; of two attempts at the same task, the first to link wins."""
    hidden = os.path.join(folder, "tmp", f"{name}.{os.getpid()}")
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(hidden, os.path.join(folder, "new", name))
        return True
    except FileExistsError:
        return False
    finally:
        # One that stays is swept away as any old file in `tmp`.
        with contextlib.suppress(OSError):
            os.unlink(hidden)


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def text_of(message):
    part = message.get_body(preferencelist=("plain",))
    if part is None:
        return ""
    try:
        return part.get_content().encode("utf-8", "replace")[:BODY_BYTES_MAX].decode("utf-8", "ignore")
    except (LookupError, ValueError):
        return ""


def header(message, name):
    try:
        value = message[name]
    except (ValueError, IndexError, AttributeError):  # what the parser makes of some broken headers
        return None
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def fetch(task, maildir):
    payload = task["payload"]
    folder = folder_path(maildir, payload["folder"])
    since = when(payload["since"]).timestamp() if "since" in payload else None
    if folder == maildir:
        make(folder)
    found = []
    for part in ("new", "cur"):
        try:
            entries = list(os.scandir(os.path.join(folder, part)))
        except FileNotFoundError as error:
            raise Failed("FOLDER", f"there is no folder `{payload['folder']}`") from error
        for entry in entries:
            if entry.name.startswith(".") or not entry.is_file(follow_symlinks=False):
                continue
            written = entry.stat(follow_symlinks=False).st_mtime
            if since is None or written >= since:
                found.append((written, entry.name, entry.path))
    found.sort(reverse=True)
    messages = []
    room = FETCHED_BYTES_MAX
    for written, name, path in found[: payload["limit"]]:
        try:
            with open(path, "rb") as file:
                message = email.message_from_binary_file(file, policy=email.policy.default)
        except FileNotFoundError:
            continue  # a mail reader moved it
        time = datetime.datetime.fromtimestamp(int(written), datetime.timezone.utc)
        fields = {
            "id": name.split(":", 1)[0],
            "messageId": header(message, "Message-ID"),
            "from": header(message, "From"),
            "to": header(message, "To"),
            "subject": header(message, "Subject"),
            "date": header(message, "Date"),
            "received": time.isoformat().replace("+00:00", "Z"),
            "body": text_of(message),
        }
        room -= len(json.dumps(fields))
        if room < 0:
            break
        messages.append(fields)
    more = len(found) > len(messages)
    return {"folder": payload["folder"], "messages": messages, "more": more}


def main():
    parser = argparse.ArgumentParser(description="keeps mail in a maildir; reads one task from standard input")
    parser.add_argument("maildir")
    parser.add_argument("--from", dest="sender", default="assistant@localhost", metavar="ADDRESS")
    args = parser.parse_args()
    task = json.load(sys.stdin)
    try:
        if task["action"] in FOLDERS:
            data = keep(task, args.maildir, args.sender)
        elif task["action"] == "email.fetch":
            data = fetch(task, args.maildir)
        else:
            raise Failed("ACTION", f"a maildir has no `{task['action']}`")
        answer = {"success": True, "data": data}
    except Failed as failed:
        answer = {"success": False, "error": {"code": failed.code, "message": failed.message}}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
