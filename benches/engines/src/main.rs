//! `cargo run --release`: what deciding one order by the twenty rules costs, in every engine, by
//! turns. `docs/performance.md` says what the figures mean.

use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::Instant;

use spoolgate_engines::engine::Engine;
use spoolgate_engines::engine::cedar::Cedar;
use spoolgate_engines::engine::cel::Cel;
use spoolgate_engines::engine::floor::{self, Floor};
use spoolgate_engines::engine::own::Own;
use spoolgate_engines::engine::rego::{Rego, Wanted};
use spoolgate_engines::order::{self, Order};
use spoolgate_engines::{Result, export, losses, rules};
use spoolgate_rules::rule::Program;

const SEED: u64 = 7;
const ORDERS: usize = 4_096;
/// Orders that are converted, then decided, then dropped together: few enough to stay in the cache,
/// enough for the clock not to count.
const BLOCK: usize = 64;
const ROUNDS: usize = 15;

const USAGE: &str = "usage: cargo run --release --locked -- [ROUNDS | --policies | --only NAME \
    ROUNDS]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => measure(ROUNDS, None),
        ["--policies"] => print_policies(),
        ["--only", name, rounds] => measure(rounds.parse()?, Some(name)),
        [rounds] => measure(rounds.parse().map_err(|_| USAGE)?, None),
        _ => Err(USAGE.into()),
    }
}

fn print_policies() -> Result<()> {
    let program = rules::program(rules::FILES)?;
    for (id, text) in export::cedar(&program)? {
        println!("// {id}\n{text}");
    }
    println!("{}", export::rego(&program)?);
    for (id, text) in export::cel(&program)? {
        println!("// {id}\n{text}\n");
    }
    Ok(())
}

/// Nanoseconds of one order.
#[derive(Clone, Copy)]
struct Pass {
    decide: f64,
    whole: f64,
}

/// One walk over all orders; the median block.
type Walk = Box<dyn FnMut(&[Order]) -> Result<Pass>>;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn walk<E: Engine>(
    engine: &mut E,
    orders: &[Order],
    mut decide: impl FnMut(&mut E, &E::Request<'_>) -> Result<usize>,
) -> Result<Pass> {
    let (mut decides, mut wholes) = (Vec::new(), Vec::new());
    for block in orders.chunks_exact(BLOCK) {
        let mut requests = Vec::with_capacity(BLOCK);
        let mut refused = 0;
        let begun = Instant::now();
        for order in block {
            requests.push(engine.request(black_box(order))?);
        }
        let converted = Instant::now();
        for request in &requests {
            refused += decide(engine, black_box(request))?;
        }
        let decided = Instant::now();
        drop(requests);
        let ended = Instant::now();
        black_box(refused);
        let each =
            |from: Instant, to: Instant| to.duration_since(from).as_nanos() as f64 / BLOCK as f64;
        decides.push(each(converted, decided));
        wholes.push(each(begun, ended));
    }
    Ok(Pass {
        decide: median(decides),
        whole: median(wholes),
    })
}

/// The engine, once it has agreed with the function on every order.
fn agreed<E: Engine + 'static>(
    name: &str,
    mut engine: E,
    is_verdict_only: bool,
    orders: &[Order],
) -> Result<Walk> {
    for order in orders {
        let request = engine.request(order)?;
        let (mask, wanted) = (engine.acting(&request)?, floor::acting(order));
        let agrees = if is_verdict_only {
            (mask != 0) == (wanted != 0)
        } else {
            mask == wanted
        };
        if !agrees || engine.is_refused(&request)? != (wanted != 0) {
            return Err(
                format!("{name} says {mask:#b} instead of {wanted:#b} of {order:?}").into(),
            );
        }
    }
    Ok(Box::new(move |orders| {
        walk(&mut engine, orders, |engine, request| {
            Ok(usize::from(engine.is_refused(request)?))
        })
    }))
}

const ENGINES: &[&str] = &[
    "own",
    "own, every finding",
    "function by hand",
    "cel, 20 programs",
    "cel, one expression",
    "regorus, machine",
    "regorus, compiled",
    "regorus, read",
    "cedar",
];

/// The engine of this name, ready to be timed.
fn prepared(name: &str, program: &Program, orders: &[Order]) -> Result<Walk> {
    let rego = |wanted| Rego::new(program, wanted);
    match name {
        "own" => agreed(name, Own::new(program.clone())?, false, orders),
        "own, every finding" => {
            let mut own = Own::new(program.clone())?;
            Ok(Box::new(move |orders| {
                walk(&mut own, orders, |own, facts| Ok(own.findings(facts)))
            }))
        }
        "function by hand" => agreed(name, Floor, false, orders),
        "cel, 20 programs" => agreed(name, Cel::new(program, false)?, false, orders),
        "cel, one expression" => agreed(name, Cel::new(program, true)?, true, orders),
        "regorus, machine" => agreed(name, rego(Wanted::Machine)?, false, orders),
        "regorus, compiled" => agreed(name, rego(Wanted::Compiled)?, false, orders),
        "regorus, read" => agreed(name, rego(Wanted::Read)?, false, orders),
        "cedar" => agreed(name, Cedar::new(program)?, false, orders),
        _ => Err(format!("there is no engine `{name}`").into()),
    }
}

fn first_line(path: &str, key: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .find(|line| line.starts_with(key))
        .unwrap_or("unknown")
        .to_owned()
}

fn print_conditions() {
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc
        .map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned())
        .unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("compiler  {rustc}");
    println!(
        "cores     {cores}, {}",
        first_line("/proc/cpuinfo", "model name").replace("model name\t: ", "")
    );
}

fn measure(rounds: usize, only: Option<&str>) -> Result<()> {
    let orders = order::stream(SEED, ORDERS);
    let program = rules::program(rules::FILES)?;
    let masks: Vec<u32> = orders.iter().map(floor::acting).collect();
    for (bit, (path, _)) in rules::FILES.iter().enumerate() {
        if !masks.contains(&(1 << bit)) {
            return Err(format!(
                "`{path}` alone refuses no order: the stream says nothing of it"
            )
            .into());
        }
    }
    print_conditions();
    let load_before = first_line("/proc/loadavg", "");
    let mut walks: Vec<(&str, Walk)> = Vec::new();
    for name in ENGINES
        .iter()
        .filter(|name| only.is_none_or(|only| only == **name))
    {
        walks.push((name, prepared(name, &program, &orders)?));
    }
    if walks.is_empty() {
        return Err(format!("NAME is one of: {}", ENGINES.join(", ")).into());
    }
    let refused = masks.iter().filter(|mask| **mask != 0).count();
    println!(
        "orders    {ORDERS}, {refused} refused; every engine names the same rules for each of \
        them\n"
    );
    let mut passes: Vec<Vec<Pass>> = vec![Vec::new(); walks.len()];
    for _ in 0..rounds.max(1) {
        for ((_, walk), passes) in walks.iter_mut().zip(&mut passes) {
            passes.push(walk(&orders)?);
        }
    }
    print_figures(&walks, &passes);
    println!(
        "\nload      {load_before} before, {} after\n",
        first_line("/proc/loadavg", "")
    );
    print_losses()
}

/// Median of the rounds, lowest and highest.
fn spread(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    format!("{:.0} ({low:.0}-{high:.0})", median(values.to_vec()))
}

fn print_figures(walks: &[(&str, Walk)], passes: &[Vec<Pass>]) {
    println!("| engine | decide, ns | to ours | converted, decided, dropped, ns | to ours |");
    println!("|---|---|---|---|---|");
    let ratio = |of: &[Pass], pick: fn(&Pass) -> f64| {
        // Round by round: both ran within the same seconds.
        let pairs = of
            .iter()
            .zip(&passes[0])
            .map(|(other, own)| pick(other) / pick(own));
        median(pairs.collect())
    };
    for ((name, _), of) in walks.iter().zip(passes) {
        let decide: Vec<f64> = of.iter().map(|pass| pass.decide).collect();
        let whole: Vec<f64> = of.iter().map(|pass| pass.whole).collect();
        let (decide, whole) = (spread(&decide), spread(&whole));
        let (to_decide, to_whole) = (ratio(of, |pass| pass.decide), ratio(of, |pass| pass.whole));
        println!("| {name} | {decide} | {to_decide:.2} | {whole} | {to_whole:.2} |");
    }
}

fn print_losses() -> Result<()> {
    println!("| must be refused | ours | Cedar | Rego | CEL |");
    println!("|---|---|---|---|---|");
    for case in losses::cases() {
        let losses::Answers {
            ours,
            cedar,
            rego,
            cel,
        } = case.answers()?;
        println!(
            "| {} | {} | {} | {} | {} |",
            case.name,
            ours.text(),
            cedar.text(),
            rego.text(),
            cel.text()
        );
    }
    Ok(())
}
