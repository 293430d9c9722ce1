//! The filter of system calls: ways out of a cage that Landlock leaves open.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::Sockets;

/// Calls that have the same number everywhere and that `libc` does not know everywhere.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;
/// Its flags and mode are in memory, where no filter looks.
const OPENAT2: u32 = 437;
/// Bits of a mode with which a file runs as its owner or group, whoever starts it.
const RUNS_AS_ANOTHER: [u64; 2] = [0o4000, 0o2000];
/// Flags of `open` with which it has a mode.
const MAKES_A_FILE: [u64; 2] = [0o100, 0o20_000_000];
/// First number of the calls of x32, a second set of calls of x86-64.
const X32: u32 = 0x4000_0000;
/// Bits of the second argument of `socket` that are the type; the others are flags.
const TYPE_MASK: u64 = 0xf;
const UNIX: u64 = 1;
const INET: u64 = 2;
const INET6: u64 = 10;
const NETLINK: u64 = 16;
const STREAM: u64 = 1;
const DGRAM: u64 = 2;
const TCP: u64 = 6;
const UDP: u64 = 17;
/// Sends data with the first packet of a connection, round the check of ports.
const MSG_FASTOPEN: u64 = 0x2000_0000;
const F_SETLEASE: u64 = 1024;
/// The same with other words, for folders too, from Linux 6.19 on.
const F_SETDELEG: u64 = 1040;
const PR_SET_PDEATHSIG: u64 = 1;
const SIGKILL: u64 = 9;
/// `which` of one process.
const PRIO_PROCESS: u64 = 0;
const IOPRIO_WHO_PROCESS: u64 = 1;

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    #[error("the filter cannot be made: {0}")]
    Make(#[from] BackendError),
    #[error("the filter cannot be applied: {0}")]
    Apply(#[from] seccompiler::Error),
}

/// A comparison of an argument: its place, and what must hold for the call to be refused.
type Cond = (u8, SeccompCmpOp, u64);

const fn is(arg: u8, value: u64) -> Cond {
    (arg, SeccompCmpOp::Eq, value)
}

const fn is_not(arg: u8, value: u64) -> Cond {
    (arg, SeccompCmpOp::Ne, value)
}

const fn has(arg: u8, mask: u64, value: u64) -> Cond {
    (arg, SeccompCmpOp::MaskedEq(mask), value)
}

/// Types of sockets except these.
fn other_types(permitted: &'static [u64]) -> impl Iterator<Item = u64> {
    (0..=TYPE_MASK).filter(|kind| !permitted.contains(kind))
}

/// When `socket` is refused; empty: always.
fn refused_sockets(sockets: Sockets) -> Vec<Vec<Cond>> {
    let mut domains = Vec::new();
    if sockets.inet {
        domains.extend([INET, INET6, NETLINK]);
    }
    if sockets.unix {
        domains.push(UNIX);
    }
    if domains.is_empty() {
        return Vec::new();
    }
    let mut refused = vec![domains.iter().map(|domain| is_not(0, *domain)).collect()];
    for domain in domains {
        match domain {
            // Protocol 0 of NETLINK is the one for routes.
            NETLINK => refused.push(vec![is(0, domain), is_not(2, 0)]),
            INET | INET6 => {
                refused.extend(
                    other_types(&[STREAM, DGRAM])
                        .map(|kind| vec![is(0, domain), has(1, TYPE_MASK, kind)]),
                );
                for (kind, protocol) in [(STREAM, TCP), (DGRAM, UDP)] {
                    refused.push(vec![
                        is(0, domain),
                        has(1, TYPE_MASK, kind),
                        is_not(2, 0),
                        is_not(2, protocol),
                    ]);
                }
            }
            _ => {}
        }
    }
    refused
}

/// When a call with a mode is refused: it would make a file that runs as the gate's user for whoever
/// starts it. `mkdir` has no case here: the kernel makes no folder with these bits.
fn refused_modes(mode: u8) -> Vec<Vec<Cond>> {
    RUNS_AS_ANOTHER
        .iter()
        .map(|bit| vec![has(mode, *bit, *bit)])
        .collect()
}

/// The same for calls that have a mode only with some of their flags.
fn refused_modes_with(flags: u8, mode: u8) -> Vec<Vec<Cond>> {
    let with =
        |bit: u64| MAKES_A_FILE.map(|flag| vec![has(flags, flag, flag), has(mode, bit, bit)]);
    RUNS_AS_ANOTHER.into_iter().flat_map(with).collect()
}

/// The calls that are refused, each with the cases in which it is; without a case, always.
fn refused(sockets: Sockets) -> Vec<(i64, Vec<Vec<Cond>>)> {
    let always = [
        libc::SYS_fchmodat,
        FCHMODAT2,
        libc::SYS_fchownat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        SETXATTRAT,
        REMOVEXATTRAT,
        FILE_SETATTR,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chown,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lchown,
        // Without `bind` it takes a port that nobody chose, which Landlock does not restrict.
        libc::SYS_listen,
        // Memory that outlives the program, and namespaces in which it would be root.
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_msgget,
        libc::SYS_semget,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_io_uring_setup,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
    ];
    let of_others = [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ];
    let mut socketpair = vec![vec![is_not(0, UNIX)]];
    socketpair.extend(other_types(&[STREAM]).map(|kind| vec![has(1, TYPE_MASK, kind)]));
    let fast = |arg| vec![vec![has(arg, MSG_FASTOPEN, MSG_FASTOPEN)]];
    let one = |which| vec![vec![is_not(0, which)], vec![is_not(1, 0)]];
    let mut all: Vec<(i64, Vec<Vec<Cond>>)> = vec![
        (libc::SYS_socket, refused_sockets(sockets)),
        (libc::SYS_socketpair, socketpair),
        (libc::SYS_sendto, fast(3)),
        (libc::SYS_sendmsg, fast(2)),
        (libc::SYS_sendmmsg, fast(3)),
        (libc::SYS_setpriority, one(PRIO_PROCESS)),
        (libc::SYS_ioprio_set, one(IOPRIO_WHO_PROCESS)),
        (libc::SYS_fchmod, refused_modes(1)),
        (libc::SYS_openat, refused_modes_with(2, 3)),
        (libc::SYS_mknodat, refused_modes(2)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, refused_modes_with(1, 2)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, refused_modes(1)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, refused_modes(1)),
        // A lease on a file keeps others waiting who open it.
        (
            libc::SYS_fcntl,
            vec![vec![is(1, F_SETLEASE)], vec![is(1, F_SETDELEG)]],
        ),
        // The program goes when the gate goes.
        (
            libc::SYS_prctl,
            vec![vec![is(0, PR_SET_PDEATHSIG), is_not(1, SIGKILL)]],
        ),
    ];
    all.extend(always.map(|call| (call, Vec::new())));
    all.extend(of_others.map(|call| (call, vec![vec![is_not(0, 0)]])));
    all
}

fn program(sockets: Sockets) -> Result<BpfProgram, FilterError> {
    let rule = |cases: Vec<Cond>| {
        let conditions = cases.into_iter().map(|(arg, operator, value)| {
            // The kernel takes each of these arguments as 32 bits.
            SeccompCondition::new(arg, SeccompCmpArgLen::Dword, operator, value)
        });
        SeccompRule::new(conditions.collect::<Result<_, _>>()?)
    };
    let rules = refused(sockets).into_iter().map(|(call, cases)| {
        let cases: Result<Vec<SeccompRule>, BackendError> = cases.into_iter().map(rule).collect();
        Ok((call, cases?))
    });
    let rules: BTreeMap<i64, Vec<SeccompRule>> = rules.collect::<Result<_, BackendError>>()?;
    let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal.clone(), arch)?;
    // The filter looks for numbers one by one. Calls of x32 have others, and are refused before it.
    let mut program = vec![
        // Load the number of the call.
        instruction(0x20, 0, 0, 0),
        // From `X32` on, refuse; else go on behind the next instruction.
        instruction(0x35, 0, 1, X32),
        instruction(0x06, 0, 0, refusal.into()),
        // `openat2` does not exist here: programs then use `openat`.
        instruction(0x15, 0, 1, OPENAT2),
        instruction(0x06, 0, 0, unknown.into()),
    ];
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Applies the filter to this process and everything that it becomes or starts.
pub(super) fn apply(sockets: Sockets) -> Result<(), FilterError> {
    Ok(apply_filter(&program(sockets)?)?)
}
