//! What a campaign is, and how it reports.

use anyhow::{Context, Result, bail};
use ipse_testkit::Stopwatch;

/// One kind of torture.
pub(crate) struct Campaign {
    pub(crate) name: &'static str,
    /// How often the full campaign does it.
    pub(crate) full_count: u64,
    /// How often the tests do it.
    pub(crate) short_count: u64,
    /// Does it, and says in one line what was found. An error is a missed target.
    pub(crate) work: fn(&Options) -> Result<String>,
}

/// What was asked for on the command line.
pub(crate) struct Options {
    pub(crate) count: u64,
    pub(crate) seed: u64,
}

impl Options {
    /// Reads `--count N` and `--seed N`.
    pub(crate) fn parse(arguments: &[String], count: u64) -> Result<Self> {
        let mut options = Self { count, seed: ipse_testkit::fresh_seed() };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { bail!("{} needs a number", pair[0]) };
            let number = value.parse().with_context(|| format!("{name} needs a number"))?;
            match name.as_str() {
                "--count" => options.count = number,
                "--seed" => options.seed = number,
                _ => bail!("{name} is unknown; there are --count N and --seed N"),
            }
        }
        Ok(options)
    }
}

impl Campaign {
    pub(crate) fn run(&self, options: &Options) -> Result<()> {
        let Options { count, seed } = options;
        println!("{}: count {count}, seed {seed}", self.name);
        let watch = Stopwatch::start();
        let replay = format!("cargo xtask torture {} --count {count} --seed {seed}", self.name);
        let figure = (self.work)(options).with_context(|| format!("{}; replay with: {replay}", self.name))?;
        println!("  {figure}\n  in {:.1} s; replay with: {replay}", watch.seconds());
        Ok(())
    }
}
