//! The cage: programs of the rules reach nothing but what they need, and the gate knows it.

mod cost;
mod gate;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use spoolgate_host::cage::{ANY_LANDLOCK, Bounds, Outcome, SCRATCH, check_frame};
use spoolgate_host::command::{Ended, Run, run_rule, try_ways_out};
use spoolgate_host::sandbox::kernel_abi;
use spoolgate_rules::command::CommandRule;
use spoolgate_rules::safety::CageLevel;
use tempfile::TempDir;

use crate::kit::Dice;

/// A home with files of every kind that a program must not reach, and a folder that it may use.
struct Cell {
    dir: TempDir,
}

impl Cell {
    fn new() -> Cell {
        let dir = crate::kit::folder();
        let cell = Cell { dir };
        for folder in ["state", "rules", "audit", "spool/in", "work", "proposals"] {
            fs::create_dir_all(cell.path(folder)).unwrap();
        }
        for file in [
            "state/keyring.db",
            "rules/safety.yaml",
            "audit/log",
            "work/data",
        ] {
            fs::write(cell.path(file), "before").unwrap();
            fs::set_permissions(cell.path(file), fs::Permissions::from_mode(0o600)).unwrap();
        }
        cell
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join("home").join(below)
    }

    /// Runs a Python script in a cage.
    fn python(&self, script: &str, more: Value, bounds: &Bounds) -> Run {
        self.run("python3", &["-c", script], more, bounds)
    }

    fn run(&self, program: &str, args: &[&str], more: Value, bounds: &Bounds) -> Run {
        let mut rule = json!({"program": program, "args": args, "time_limit_s": 60,
            "output_bytes_max": 100_000});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let rule: CommandRule = serde_json::from_value(rule).unwrap();
        run_rule(
            &self.path(""),
            &rule,
            bounds,
            "test",
            b"",
            &AtomicBool::new(false),
        )
    }
}

fn require() -> Bounds {
    Bounds::at(CageLevel::Require)
}

/// Whether cages hold on this machine.
fn can_cage() -> bool {
    let has_python = std::process::Command::new("python3")
        .arg("--version")
        .output()
        .is_ok();
    let abi = kernel_abi();
    if abi < 6 || !has_python {
        eprintln!("skipped: Landlock is version {abi}, and 6 and python3 are wanted");
    }
    abi >= 6 && has_python
}

/// Every way out, as Python. Each expression must raise an error.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn ways_out(cell: &Cell, gate: u32, port: u16) -> Vec<(&'static str, String)> {
    let at = |below: &str| format!("'{}'", cell.path(below).display());
    let socket = cell.dir.path().join("bus");
    vec![
        (
            "read the keyring",
            format!("open({})", at("state/keyring.db")),
        ),
        (
            "read the rules",
            format!("open({})", at("rules/safety.yaml")),
        ),
        ("read /tmp", "os.listdir('/tmp')".into()),
        ("list the home", format!("os.listdir({})", at(""))),
        (
            "write into the spool",
            format!("open({}, 'w')", at("spool/in/x.json")),
        ),
        (
            "append to the ledger",
            format!("open({}, 'a')", at("audit/log")),
        ),
        (
            "cut the ledger",
            format!("os.truncate({}, 0)", at("audit/log")),
        ),
        (
            "read the gate's memory",
            format!("open('/proc/{gate}/mem', 'rb')"),
        ),
        (
            "read the gate's environment",
            format!("open('/proc/{gate}/environ').read(1)"),
        ),
        (
            "lower the gate's limits",
            format!("resource.prlimit({gate}, resource.RLIMIT_FSIZE, (0, 0))"),
        ),
        (
            "a program that runs as the gate's user for all",
            format!(
                "os.fchmod(os.open({}, os.O_RDWR | os.O_CREAT), 0o4755)",
                at("work/new")
            ),
        ),
        (
            "the same when it is made",
            format!(
                "os.open({}, os.O_RDWR | os.O_CREAT, 0o4755)",
                at("work/newer")
            ),
        ),
        (
            "the same for the group",
            format!(
                "os.open({}, os.O_RDWR | os.O_CREAT, 0o2755)",
                at("work/newest")
            ),
        ),
        (
            "the same without a name",
            format!("os.open({}, os.O_RDWR | os.O_TMPFILE, 0o4755)", at("work")),
        ),
        (
            "the same as a node",
            format!("os.mknod({}, 0o104755)", at("work/node")),
        ),
        (
            "the same with its mode in memory",
            format!(
                "check(libc.syscall(437, -100, {}.encode(), ctypes.byref((ctypes.c_ulonglong * 3)(\
                    os.O_RDWR | os.O_CREAT, 0o4755, 0)), 24))",
                at("work/newest-of-all")
            ),
        ),
        (
            "keep others waiting who open a file",
            format!(
                "fcntl.fcntl(os.open({}, os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)",
                at("work/data")
            ),
        ),
        (
            "the same by a delegation, which Linux 6.19 has",
            format!(
                "if_known(lambda: fcntl.fcntl(os.open({}, os.O_RDONLY), 1040, bytes(8)))",
                at("work/data")
            ),
        ),
        ("outlive the gate", "check(libc.prctl(1, 0))".into()),
        (
            "outlive the gate by another signal",
            "check(libc.prctl(1, 28))".into(),
        ),
        ("signal the gate", format!("os.kill({gate}, 0)")),
        (
            "slow the gate down",
            format!("os.sched_setaffinity({gate}, [0])"),
        ),
        (
            "a Unix socket by path",
            format!(
                "socket.socket(socket.AF_UNIX).connect('{}')",
                socket.display()
            ),
        ),
        (
            "an abstract socket",
            "socket.socket(socket.AF_UNIX).bind(chr(0) + 'x')".into(),
        ),
        (
            "datagrams to a socket by path",
            format!(
                "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '{}')",
                socket.display()
            ),
        ),
        (
            "UDP",
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)".into(),
        ),
        (
            "UDP over IPv6",
            "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)".into(),
        ),
        (
            "TCP",
            format!("socket.create_connection(('127.0.0.1', {port}))"),
        ),
        (
            "bind a port",
            "socket.socket().bind(('127.0.0.1', 0))".into(),
        ),
        (
            "MPTCP",
            "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)".into(),
        ),
        (
            "SCTP",
            "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)".into(),
        ),
        (
            "raw packets",
            "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)".into(),
        ),
        (
            "virtual machines' sockets",
            "socket.socket(40, socket.SOCK_STREAM)".into(),
        ),
        (
            "netlink",
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)".into(),
        ),
        (
            "open the keyring to others",
            format!("os.chmod({}, 0o666)", at("state/keyring.db")),
        ),
        (
            "give the keyring away",
            format!("os.chown({}, 0, 0)", at("state/keyring.db")),
        ),
        (
            "mark the keyring",
            format!("os.setxattr({}, 'user.x', b'1')", at("state/keyring.db")),
        ),
        (
            "link the keyring",
            format!("os.link({}, {})", at("state/keyring.db"), at("work/k")),
        ),
        (
            "move the ledger",
            format!("os.rename({}, {})", at("audit/log"), at("work/l")),
        ),
        (
            "a device",
            format!("os.mknod({}, 0o20600, os.makedev(1, 1))", at("work/mem")),
        ),
        (
            "shared memory",
            "check(ctypes.CDLL(None, use_errno=True).shmget(0, 4096, 0o1600))".into(),
        ),
        (
            "a namespace",
            "check(ctypes.CDLL(None, use_errno=True).unshare(0x10000000))".into(),
        ),
        (
            "a large file",
            format!("os.truncate({}, 1 << 40)", at("work/data")),
        ),
    ]
}

#[test]
fn every_way_out_is_closed() {
    if !can_cage() {
        return;
    }
    let cell = Cell::new();
    let _bus = UnixListener::bind(cell.dir.path().join("bus")).unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let ways = ways_out(&cell, std::process::id(), port);
    let script = |is_tried: &dyn Fn(&str) -> bool| {
        let mut script = "import ctypes, fcntl, os, socket, resource, signal\n\
            libc = ctypes.CDLL(None, use_errno=True)\n\
            def check(result):\n    if result < 0: raise OSError(ctypes.get_errno())\n\
            def if_known(call):\n    try: call()\n    except OSError as error:\n        \
            if error.errno == 1: raise\n\
            signal.signal(25, signal.SIG_IGN)\n"
            .to_owned();
        for (what, attempt) in ways.iter().filter(|(what, _)| is_tried(what)) {
            script += &format!(
                "try:\n    {attempt}\n    print(\"open: {what}\")\nexcept (OSError, ValueError): \
                 print('closed')\n"
            );
        }
        script
    };
    let write = json!({"write": ["work"]});
    let run = cell.python(&script(&|_| true), write.clone(), &require());
    assert!(matches!(run.ended, Ended::Exited(0)), "{run:?}");
    let told = String::from_utf8(run.output).unwrap();
    assert_eq!(told, "closed\n".repeat(ways.len()), "{told}");
    let cage = run.cage.unwrap();
    assert!(cage.files && cage.signals && cage.calls && cage.landlock >= 6);
    assert_eq!(cage.tcp, Some(Vec::new()));
    for file in ["state/keyring.db", "rules/safety.yaml", "audit/log"] {
        assert_eq!(fs::read_to_string(cell.path(file)).unwrap(), "before");
    }
    // These succeed without a cage, so the test can fail. Some others would end this process.
    let harmless = [
        "read the keyring",
        "TCP",
        "UDP",
        "a Unix socket by path",
        "open the keyring to others",
        "signal the gate",
        "a program that runs as the gate's user for all",
        "the same when it is made",
        "the same with its mode in memory",
        "keep others waiting who open a file",
        "outlive the gate by another signal",
    ];
    let script = script(&|what| harmless.contains(&what));
    let free = cell.python(&script, write, &Bounds::at(CageLevel::Off));
    let open: Vec<String> = harmless.map(|what| format!("open: {what}\n")).to_vec();
    let told = String::from_utf8(free.output).unwrap();
    assert!(open.iter().all(|line| told.contains(line)), "{told}");
}

#[test]
fn what_a_program_needs_stays_open() {
    if !can_cage() {
        return;
    }
    let cell = Cell::new();
    fs::create_dir(cell.path("bin")).unwrap();
    fs::write(cell.path("bin/words"), "words").unwrap();
    let script = "import os, socket, sys, subprocess, tempfile\n\
        home = os.environ['HOME']\n\
        assert home == os.environ['TMPDIR'] and '/scratch/' in home\n\
        open(home + '/own', 'w').write('x')\n\
        tempfile.TemporaryFile().write(b'y')\n\
        open(sys.argv[1]).read()\n\
        open('work/new', 'w').write('z')\n\
        a, b = socket.socketpair()\n\
        a.send(b'1')\n\
        subprocess.run(['sh', '-c', 'exit 0'], check=True)\n\
        f = open(home + '/own'); os.fchmod(f.fileno(), 0o600)\n\
        resource = __import__('resource'); resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n\
        print(os.getcwd())";
    let args = ["-c", script, "bin/words"];
    let run = cell.run("python3", &args, json!({"write": ["work"]}), &require());
    assert!(
        matches!(run.ended, Ended::Exited(0)),
        "{}",
        String::from_utf8_lossy(&run.complaint)
    );
    let home = fs::canonicalize(cell.path("")).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&run.output).trim(),
        home.to_str().unwrap()
    );
    assert_eq!(fs::read_to_string(cell.path("work/new")).unwrap(), "z");
    // Its folder is gone.
    assert_eq!(fs::read_dir(cell.path(SCRATCH)).unwrap().count(), 0);
}

#[test]
fn a_program_with_a_network_reaches_its_ports_only() {
    if !can_cage() {
        return;
    }
    let cell = Cell::new();
    let servers = [0, 1].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [named, other] = servers
        .each_ref()
        .map(|server| server.local_addr().unwrap().port());
    let script = format!(
        "import socket\n\
         socket.create_connection(('127.0.0.1', {named})).close()\n\
         socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         def closed(attempt):\n\
         \u{20}   try: attempt()\n\
         \u{20}   except OSError: return\n\
         \u{20}   raise SystemExit('open')\n\
         closed(lambda: socket.create_connection(('127.0.0.1', {other})))\n\
         closed(lambda: socket.socket().bind(('127.0.0.1', 0)))\n\
         closed(lambda: socket.socket().listen())\n\
         closed(lambda: socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', {other})))\n\
         closed(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))\n\
         closed(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))\n\
         closed(lambda: socket.socket(socket.AF_UNIX))\n"
    );
    let run = cell.python(&script, json!({"network": [named]}), &require());
    let told = String::from_utf8_lossy(&run.complaint).into_owned();
    assert!(matches!(run.ended, Ended::Exited(0)), "{told}");
    let mut ports = vec![53, named];
    ports.sort_unstable();
    assert_eq!(run.cage.unwrap().tcp, Some(ports));
}

/// A rule's paths that lead to what the gate keeps to itself do not start the program, and neither
/// does a kernel that cannot close what the level demands.
#[test]
fn a_cage_that_is_not_enough_starts_nothing() {
    if !can_cage() {
        return;
    }
    let cell = Cell::new();
    std::os::unix::fs::symlink(cell.path("state"), cell.path("link")).unwrap();
    let starts = |more: Value, level, landlock_max| {
        let bounds = Bounds {
            landlock_max,
            ..Bounds::at(level)
        };
        let mut more = more;
        if more.get("write").is_none() {
            more["write"] = json!(["work"]);
        }
        let script = "echo ran | tee work/marker";
        let run = cell.run("sh", &["-c", script], more, &bounds);
        let marker = fs::remove_file(cell.path("work/marker"));
        match run.ended {
            Ended::Exited(0) => {
                assert!(run.output == b"ran\n" && marker.is_ok());
                true
            }
            Ended::NotStarted(_) => {
                assert!(run.output.is_empty() && run.cage.is_none() && marker.is_err());
                false
            }
            other => panic!("{other:?}"),
        }
    };
    let plain = || json!({});
    let net = || json!({"network": [443]});
    use CageLevel::{Auto, Off, Require};
    for (more, level, abi, expect) in [
        (plain(), Require, 0, false),
        (plain(), Require, 1, false),
        (plain(), Require, 2, false),
        (plain(), Require, 3, true),
        (net(), Require, 3, false),
        (net(), Require, 4, true),
        (plain(), Require, 5, true),
        (plain(), Require, ANY_LANDLOCK, true),
        (plain(), Auto, 0, true),
        (net(), Auto, 2, true),
        (plain(), Off, 0, true),
        (json!({"read": ["link"]}), Require, ANY_LANDLOCK, false),
        (json!({"write": ["link"]}), Auto, ANY_LANDLOCK, false),
        (json!({"read": ["nothing"]}), Require, ANY_LANDLOCK, false),
        (json!({"network": "service"}), Require, ANY_LANDLOCK, false),
    ] {
        assert_eq!(
            starts(more.clone(), level, abi),
            expect,
            "{more} {level:?} {abi}"
        );
    }
    let run = cell.run("bin/none", &[], json!({}), &require());
    assert!(matches!(run.ended, Ended::NotStarted(_)), "{run:?}");
    fs::create_dir(cell.path("bin")).unwrap();
    fs::write(cell.path("bin/none"), "#!/bin/sh\n").unwrap();
    let run = cell.run("bin/none", &[], json!({}), &require());
    assert!(matches!(run.ended, Ended::NotStarted(_)), "{run:?}");
}

/// Doctor's attempts: each is refused in a cage, by what is said to close it, and succeeds without
/// one. None leaves a trace.
#[test]
fn doctor_tries_every_way_out() {
    const MEMORY: &str = "opening the gate's memory";
    if !can_cage() {
        return;
    }
    let home = crate::kit::Scratch::new();
    let root = home.home();
    let before = crate::kit::kept::files(&root);
    let open = |level, landlock_max| {
        let bounds = Bounds {
            landlock_max,
            ..Bounds::at(level)
        };
        let (cage, tried) = try_ways_out(&root, &bounds).unwrap();
        assert_eq!(tried.len(), 15);
        for way in &tried {
            assert!(!matches!(way.outcome, Outcome::Unclear(_)), "{way:?}");
            // A capable parent's memory is also closed to a child without capabilities.
            if let Some(cage) = cage.as_ref().filter(|_| way.name != MEMORY) {
                let is_closed = way.outcome == Outcome::Closed;
                assert_eq!(way.can_be_closed(cage), is_closed, "{way:?} {cage:?}");
            }
        }
        let open = tried.into_iter().filter(|way| way.outcome == Outcome::Open);
        open.map(|way| way.name).collect::<Vec<_>>()
    };
    use CageLevel::{Auto, Off, Require};
    let none: [&str; 0] = [];
    assert_eq!(open(Require, ANY_LANDLOCK), none);
    assert_eq!(open(Require, 6), none);
    assert_eq!(open(Require, 5), ["signalling the gate"]);
    assert_eq!(open(Require, 3), ["signalling the gate"]);
    assert_eq!(open(Auto, 2), ["truncating files", "signalling the gate"]);
    // Without Landlock only what the filter refuses is closed.
    let without = open(Auto, 0).into_iter().filter(|way| *way != MEMORY);
    assert_eq!(without.count(), 7);
    // Without a cage all are open, unless the kernel lets nobody read the memory of a parent.
    let free = open(Off, ANY_LANDLOCK);
    assert!(free.len() == 15 || free.len() == 14 && !free.contains(&MEMORY));
    let refused = try_ways_out(
        &root,
        &Bounds {
            landlock_max: 2,
            ..require()
        },
    );
    let told = refused.unwrap_err().to_string();
    assert!(
        told.contains("Landlock 2: truncating audit/ is open"),
        "{told}"
    );
    assert_eq!(crate::kit::kept::files(&root), before);
}

/// Frames are read from a pipe that only the gate writes; anything else is refused without a panic.
#[test]
fn hostile_frames_are_refused() {
    let mut dice = Dice::new(24);
    let frame = br#"{"v":1,"program":"/bin/true","name":"true","args":[],"dir":"/","read":[],"write":[],"tcp":[],"sockets":{"inet":false,"unix":false},"env":{},"limits":{"memory_bytes":1},"parent":1,"level":"require","landlock_max":7}"#;
    let with_length = |bytes: &[u8]| {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    };
    check_frame(&with_length(frame)).unwrap();
    let count = crate::kit::campaign(100_000, 10_000_000);
    for _ in 0..count {
        let mut bytes = with_length(frame);
        for _ in 0..=dice.below(4) {
            let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
            match dice.below(3) {
                0 => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, b'"'),
            }
        }
        let _ = check_frame(&bytes);
    }
    for bytes in [
        &b""[..],
        b"\0\0\0\0",
        b"\xff\xff\xff\xff{}",
        b"\0\0\0\x02{}",
        &with_length(b"{\"v\":2}"),
    ] {
        assert!(check_frame(bytes).is_err(), "{bytes:?}");
    }
    let longer = with_length(&[b' '; 64 * 1024 + 1]);
    assert!(check_frame(&longer).is_err());
}
