// The ways to a gate: files in its spool, or frames on its socket.
import * as fs from "node:fs";
import { createConnection } from "node:net";
import { frame, readAnswer } from "./wire.js";

const ANSWER_BYTES_MAX = 64 << 20;
const [POLL_MS, POLL_MAX_MS] = [5, 100];
const CONTESTED_MS = 1000; // how long an answer may take that shows that another one was another sender's
const AGAIN_MS = 50; // between two connections
const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
const O_PATH = 0o10000000; // of Linux; Node does not name it

export const now = () => performance.now();
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The gate cannot decide the request, because it did not get it. */
export class NothingSent extends Error {}

/** Yields between two looks, until the deadline. */
async function* looks(deadline, longest = POLL_MAX_MS) {
  for (let pause = POLL_MS, left; (left = deadline - now()) > 0; pause = Math.min(pause * 1.5, longest)) {
    yield;
    await sleep(Math.min(pause, left));
  }
}

/** Calls `use` with the path of an open folder below the home. No link on the way is followed. Agents may make folders in `spool/in`, so
 *  one in there is used only if it belongs to the owner of `spool` or to root, as the gate uses it. */
function within(home, names, use) {
  let fd = fs.openSync(home, O_PATH | O_DIRECTORY);
  try {
    let owner;
    for (const [depth, name] of names.entries()) {
      const below = fs.openSync(`/proc/self/fd/${fd}/${name}`, O_PATH | O_DIRECTORY | O_NOFOLLOW);
      fs.closeSync(fd);
      fd = below;
      const { uid } = fs.fstatSync(fd);
      owner ??= uid;
      if (depth > 1 && uid !== owner && uid !== 0)
        throw new Error(`folder \`${name}\` belongs to user ${uid}, not to the gate's user ${owner}`);
    }
    return use(`/proc/self/fd/${fd}`);
  } finally {
    fs.closeSync(fd);
  }
}

const version = (stat) => `${stat.ino}:${stat.mtimeNs}`;

/** The flat spool, or an agent's own one. */
export class Spool {
  constructor(home, agent) {
    this.home = home;
    this.isOwn = agent !== undefined;
    this.out = this.isOwn ? ["spool", "out", agent] : ["spool", "out"];
    this.tmp = this.isOwn ? ["spool", "in", agent, "tmp"] : ["spool", "in"];
    this.new = this.isOwn ? ["spool", "in", agent, "new"] : ["spool", "in"];
  }

  /** Hands a request in and returns its answer, or undefined if none came. */
  async ask(request, deadline) {
    let sent;
    try {
      sent = this.#handIn(request);
    } catch (error) {
      throw new NothingSent(error.message);
    }
    for await (const _ of looks(deadline)) {
      const found = sent.look();
      if (found) return found;
    }
    return sent.look();
  }

  /** Returns the answer that replaces an interim one. */
  async nextAnswer(request, last, deadline) {
    for await (const _ of looks(deadline)) {
      const found = this.fresh(request.fileName, last.version, request.id);
      if (found && found.outcome !== "held") return found;
    }
    return undefined;
  }

  /** What is there: inode, and time of change. */
  stat(folder, name) {
    return within(this.home, folder, (path) => fs.lstatSync(`${path}/${name}`, { bigint: true }));
  }

  version(folder, name) {
    try {
      return version(this.stat(folder, name));
    } catch {
      return undefined;
    }
  }

  /** The answer in a file, if it is another version than `before`, and to the request of this id. */
  fresh(name, before, id) {
    let fd;
    try {
      fd = within(this.home, this.out, (path) => fs.openSync(`${path}/${name}`, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
      const found = fs.fstatSync(fd, { bigint: true });
      if (version(found) === before || !found.isFile() || found.size > ANSWER_BYTES_MAX) return undefined;
      const read = readAnswer(fs.readFileSync(fd));
      const isOurs = read && (id === undefined || read.whole.requestId === id);
      return isOurs ? { ...read, version: version(found) } : undefined;
    } catch {
      return undefined;
    } finally {
      if (fd !== undefined) fs.closeSync(fd);
    }
  }

  /** Links the whole and durable file to its name. An error means that nothing was handed in. */
  #handIn(request) {
    const random = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("hex");
    const stem = request.fileName.slice(0, -".json".length);
    return within(this.home, this.out, () =>
      within(this.home, this.tmp, (tmp) =>
        within(this.home, this.new, (folder) => {
          const hidden = `${tmp}/.${random}.tmp`;
          const fd = fs.openSync(hidden, O_WRONLY | O_CREAT | O_EXCL, 0o666);
          let sent;
          try {
            let inode;
            try {
              fs.writeFileSync(fd, request.bytes);
              const { mode, ino } = fs.fstatSync(fd, { bigint: true });
              fs.fchmodSync(fd, (Number(mode) & 0o777) | 0o040); // the gate may read it by its group
              fs.fsyncSync(fd);
              inode = ino;
            } finally {
              fs.closeSync(fd);
            }
            for (let more = 0; !sent; more += 1) {
              const name = more ? `${stem}.${more}.json` : `${stem}.json`;
              const found = new Sent(this, request, name, inode, more > 0);
              try {
                fs.linkSync(hidden, `${folder}/${name}`);
                sent = found;
              } catch (error) {
                if (error.code !== "EEXIST") throw error;
              }
            }
          } finally {
            try {
              fs.unlinkSync(hidden);
            } catch (error) {
              if (!sent) throw error;
            }
          }
          try {
            const readable = fs.openSync(folder, O_RDONLY | O_DIRECTORY);
            try {
              fs.fsyncSync(readable);
            } finally {
              fs.closeSync(readable);
            }
          } catch {
            // Agents cannot read the flat spool, and the request is handed in whether this succeeds or not.
          }
          return sent;
        }),
      ),
    );
  }
}

/** A file that was handed in, and where its answer will be. */
class Sent {
  constructor(spool, request, name, inode, isContested) {
    Object.assign(this, { spool, request, name, inode, isContested });
    this.before = spool.version(spool.out, request.fileName);
    this.beforeError = spool.version(spool.out, `${name}.error.json`);
  }

  /** Whether the gate has not taken the file yet, as far as anybody can tell. */
  #waits() {
    try {
      return this.spool.stat(this.spool.new, this.name).ino === this.inode;
    } catch (error) {
      return error.code !== "ENOENT";
    }
  }

  /** The answer to this file. One under the id may be another file's that has the same id, and one under the file's name another
   *  sender's that used the same name: so neither counts while this file waits, or while the other may follow. */
  look() {
    const byId = this.spool.fresh(this.request.fileName, this.before, this.request.id);
    // Only after the answer was read: what is read before the gate takes the file is another's, what is read later may be ours.
    if (this.#waits()) {
      if (byId) [this.before, this.isContested] = [byId.version, true];
      return undefined;
    }
    const byName = this.spool.fresh(`${this.name}.error.json`, this.beforeError);
    if (byId && byName?.whole.error?.code === "REQUEST_ID_CONFLICT") return byName;
    if (byId && !this.isContested) return byId;
    const found = byId ?? byName;
    if (!found) return undefined;
    this.since ??= now();
    return (this.spool.isOwn && !byId) || now() - this.since >= CONTESTED_MS ? found : undefined;
  }
}

/** Frames on a gate's socket, one connection per request: a gate serves one client of a user at a time. */
export class Socket {
  constructor(path) {
    this.path = path;
  }

  /** Sends a request until it is answered. Returns undefined if no answer came. */
  async ask(request, deadline) {
    for (let isSent = false; ; isSent = true) {
      try {
        const found = await this.#exchange(request, deadline);
        if (found) return found;
      } catch (error) {
        if (!isSent && error instanceof NothingSent) throw error;
      }
      if (now() >= deadline) return undefined;
      await sleep(AGAIN_MS);
    }
  }

  /** Returns the answer that replaces an interim one, asking for it again and again. */
  async nextAnswer(request, last, deadline) {
    for await (const _ of looks(deadline, 5000)) {
      const found = await this.ask(request, deadline);
      if (found && found.outcome !== "held") return found;
    }
    return undefined;
  }

  #exchange(request, deadline) {
    return new Promise((resolve, reject) => {
      let [got, isConnected] = [Buffer.alloc(0), false];
      const gate = createConnection({ path: this.path });
      const end = (found) => {
        clearTimeout(timer);
        gate.destroy();
        resolve(found);
      };
      const timer = setTimeout(end, Math.max(deadline - now(), 1));
      gate.on("connect", () => {
        isConnected = true;
        gate.write(frame(request.bytes));
      });
      gate.on("data", (piece) => {
        got = Buffer.concat([got, piece]);
        while (got.length >= 4) {
          const length = got.readUInt32BE(0);
          if (length > ANSWER_BYTES_MAX) return end();
          if (got.length < 4 + length) return undefined;
          const read = readAnswer(got.subarray(4, 4 + length));
          got = got.subarray(4 + length);
          if (read && [request.id, "", "unknown"].includes(read.whole.requestId)) return end(read);
        }
        return undefined;
      });
      gate.on("close", () => end());
      gate.on("error", (error) => {
        if (isConnected || error.code === "EAGAIN") return end();
        clearTimeout(timer);
        return reject(new NothingSent(`no gate answers at \`${this.path}\`: ${error.message}`));
      });
    });
  }
}
