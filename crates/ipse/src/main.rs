//! `ipse`: reads the command line and says in one sentence what went wrong.

use std::process::ExitCode;

fn main() -> ExitCode {
    ipse::run(std::env::args_os())
}
