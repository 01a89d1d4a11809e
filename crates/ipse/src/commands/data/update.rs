//! `ipse data update`: what the server's timer does, now and with someone watching.

use super::progress::Bar;
use super::report::{date, percent};
use crate::commands::{print, read, runtime, say};
use crate::error::Error;
use crate::settings::UpdateFlags;
use crate::table::Table;
use crate::update::{downloader, plan};
use clap::Args;
use ipse_edge::Clock;
use ipse_geo::{About, short_version};
use ipse_geodata::{Progress, Standing, Step, UpdateStep, Updated, update};
use ipse_store::DataFolder;
use std::sync::{Arc, Mutex, PoisonError};

/// The sources are those of the settings, the same that a server's timer uses.
#[derive(Args)]
pub(in crate::commands) struct Update {
    /// Build even if nothing changed, and accept data that knows much less than the old
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    flags: UpdateFlags,
}

pub(super) fn run(command: &Update) -> Result<(), Error> {
    let config = read(&command.flags.0)?;
    let plan = plan(&config, command.force)?;
    DataFolder::create(&config.data_dir)?;
    let downloader = downloader()?;
    let target = plan.target.clone();
    let names: Vec<String> = plan.sources.iter().map(ToString::to_string).collect();
    let screen = Mutex::new(Screen { names, bar: None });
    let watcher = Arc::new(move |step| screen.lock().unwrap_or_else(PoisonError::into_inner).show(step));
    match runtime()?.block_on(update(plan, &downloader, Clock::system().now(), watcher))? {
        Updated::Unchanged(standing) => print(&format!(
            "Already up to date: {} is version {}, built {} from the newest files.\n",
            target.display(),
            short_version(&standing.version),
            date(standing.about.built),
        )),
        Updated::Replaced { old, new } => {
            print(&changes(old.as_ref(), &new))?;
            say(&format!("Wrote {}. A running server takes it by itself.", target.display()));
            Ok(())
        }
    }
}

/// One bar at a time.
struct Screen {
    names: Vec<String>,
    bar: Option<(String, Bar)>,
}

impl Screen {
    fn show(&mut self, step: UpdateStep) {
        match step {
            UpdateStep::Downloading(source, Progress::Bytes { done, total }) => {
                let what = self.names[source].clone();
                self.bar(what, Bar::bytes).set(done, total.unwrap_or(done));
            }
            UpdateStep::Downloading(source, Progress::Waiting { delay, why }) => {
                self.finish();
                say(&format!(
                    "{}: {why}; trying again in {} seconds",
                    self.names[source],
                    delay.as_secs().max(1)
                ));
            }
            UpdateStep::Downloaded(_) => self.finish(),
            UpdateStep::Reading(source, done, total) => {
                let what = format!("Reading {}", self.names[source]);
                self.bar(what, Bar::new).set(done, total);
            }
            UpdateStep::Building(Step::Merging { done, total }) => {
                self.bar("Merging".to_owned(), Bar::new).set(done, total);
            }
            UpdateStep::Building(Step::Packing) => {
                self.bar("Packing".to_owned(), Bar::spinner);
            }
            UpdateStep::Verifying => {
                self.bar("Verifying".to_owned(), Bar::spinner);
            }
        }
    }

    fn bar(&mut self, what: String, new: fn(&str) -> Bar) -> &Bar {
        if self.bar.as_ref().is_some_and(|(shown, _)| *shown != what) {
            self.finish();
        }
        let (_, bar) = self.bar.get_or_insert_with(|| {
            let bar = new(&what);
            (what, bar)
        });
        bar
    }

    fn finish(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.finish();
    }
}

/// What is different now.
fn changes(old: Option<&Standing>, new: &Standing) -> String {
    let version = |standing: Option<&Standing>| {
        standing.map_or("none", |standing| short_version(&standing.version)).to_owned()
    };
    let mut text = format!("Version  {}, before {}\n\n", version(Some(new)), version(old));

    let mut sources = Table::new(["SOURCE", "FOR", "FILE", "DATE", "BEFORE", "LICENCE"]);
    let before = |source: &ipse_geo::Source| {
        let same = |old: &&ipse_geo::Source| old.kind == source.kind && old.name == source.name;
        old.and_then(|old| old.about.sources.iter().find(same))
    };
    let dated = |source: &ipse_geo::Source| source.built.map_or_else(|| "unknown".to_owned(), date);
    for source in &new.about.sources {
        sources.row([
            source.name.clone(),
            source.kind.clone(),
            source.file.clone(),
            dated(source),
            before(source).map_or_else(|| "none".to_owned(), dated),
            source.licence.clone().unwrap_or_else(|| "unknown".to_owned()),
        ]);
    }
    text += &format!("{sources}\n");

    let mut coverage = Table::new(["FIELD", "IPv4", "BEFORE", "IPv6", "BEFORE"]);
    let known = |about: Option<&About>, field: &str| {
        let row = about?.coverage.iter().find(|row| row.field == field && row.within.is_none())?;
        Some((row.v4, row.v6))
    };
    for row in new.about.coverage.iter().filter(|row| row.within.is_none()) {
        let was = known(old.map(|old| &old.about), &row.field);
        let [was_v4, was_v6] = [was.map(|(v4, _)| v4), was.map(|(_, v6)| v6)]
            .map(|share| share.map_or_else(|| "none".to_owned(), percent));
        coverage.row([row.field.clone(), percent(row.v4), was_v4, percent(row.v6), was_v6]);
    }
    text +=
        &format!("Known, as a share of public IPv4 addresses and of announced IPv6 networks:\n{coverage}");
    text
}
