//! All automation of the project, behind `cargo xtask`.
//!
//! It must be quick to build, because everyone builds it first: it has next to no dependencies and none of the
//! product's crates.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod deb;
mod default_data;
mod geo_sources;
mod harness;
mod lighthouse;
mod node;
mod run;
mod test;
mod tidy;
mod tools;
mod world_map;

use default_data::Purpose;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test           everything that must pass before a change is merged
cargo xtask tidy           the rules of the repository that no compiler checks
cargo xtask torture ARGS   build for release, then run fault campaigns against a real server
cargo xtask simulate       run the counters of both kinds through a hundred million requests in worlds of faults
cargo xtask bench ARGS     build for release, then measure everything beside others, or one of http, tls, growth, ledger, start,
                           geo, keys, nodes, compare COMMIT; with --quick in fewer rounds (not start, geo, keys, nodes);
                           or count instructions, with --record to write them down
cargo xtask lighthouse     build for release, then have Lighthouse judge the pages; with --program FILE those of
                           another build
cargo xtask deb            build for release, then make a Debian package of it; with --program FILE of another build,
                           with --revision N another package of this version, with --to DIR elsewhere, with --fast
                           quicker and larger
cargo xtask default-data   build data/default.ipse from its pinned sources; with --check only compare,
                           with --update take their newest versions first
cargo xtask world-map      draw the front page's map from its pinned outlines; with --check only compare
cargo xtask tools          install what the tests need, and say what to set to run one of them by hand
cargo xtask help           this list";

/// What the shell calls a mistake of whoever typed the command, as opposed to a check that failed.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        eprintln!("Say what to do:\n{HELP}");
        return ExitCode::from(EXIT_USAGE);
    };
    let done = match (command.as_str(), rest) {
        ("help" | "--help" | "-h", _) => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        ("test", []) => root().and_then(|root| test::all(&root)),
        ("tidy", []) => root().and_then(|root| tidy::report(&root)),
        ("tools", []) => root().and_then(|root| tools::report(&root)),
        ("simulate", rest) => {
            root().and_then(|root| harness::torture(&root, &[&["simulate".to_owned()], rest].concat()))
        }
        ("torture", rest) => root().and_then(|root| harness::torture(&root, rest)),
        ("bench", rest) => root().and_then(|root| harness::bench(&root, rest)),
        ("lighthouse", []) => root().and_then(|root| lighthouse::run(&root, None)),
        ("lighthouse", [option, program]) if option == "--program" => {
            root().and_then(|root| lighthouse::run(&root, Some(program)))
        }
        ("lighthouse", _) => {
            eprintln!("`cargo xtask lighthouse` takes nothing, or `--program FILE`.");
            return ExitCode::from(EXIT_USAGE);
        }
        ("deb", rest) => {
            let Some(plan) = deb::Plan::read(rest) else {
                eprintln!(
                    "`cargo xtask deb` takes `--program FILE`, `--revision N`, `--to DIR` and `--fast`."
                );
                return ExitCode::from(EXIT_USAGE);
            };
            root().and_then(|root| deb::run(&root, &plan))
        }
        ("default-data", rest) => {
            let Some(purpose) = purpose(rest) else {
                eprintln!("`cargo xtask default-data` takes nothing, `--check` or `--update`.");
                return ExitCode::from(EXIT_USAGE);
            };
            root().and_then(|root| default_data::run(&root, purpose))
        }
        ("world-map", rest) => {
            let purpose = match rest {
                [] => world_map::Purpose::Make,
                [only] if only == "--check" => world_map::Purpose::Check,
                _ => {
                    eprintln!("`cargo xtask world-map` takes nothing or `--check`.");
                    return ExitCode::from(EXIT_USAGE);
                }
            };
            root().and_then(|root| world_map::run(&root, purpose))
        }
        ("test" | "tidy" | "tools", [argument, ..]) => {
            eprintln!(
                "`cargo xtask {command}` takes no arguments, and was given `{argument}`: leave it out."
            );
            return ExitCode::from(EXIT_USAGE);
        }
        _ => {
            eprintln!("`{command}` is not a command of `cargo xtask`. These are:\n{HELP}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::FAILURE
    })
}

fn purpose(arguments: &[String]) -> Option<Purpose> {
    match arguments {
        [] => Some(Purpose::Make),
        [only] if only == "--check" => Some(Purpose::Check),
        [only] if only == "--update" => Some(Purpose::Update),
        _ => None,
    }
}

/// The repository's root. Cargo tells it at run time; a path fixed at build time would be wrong as soon as two
/// checkouts share a target folder.
fn root() -> anyhow::Result<PathBuf> {
    let manifest_folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    manifest_folder
        .as_deref()
        .and_then(|folder| folder.parent())
        .map(PathBuf::from)
        .ok_or_else(|| anyhow::anyhow!("The repository is not to be found. Start this with `cargo xtask`."))
}
