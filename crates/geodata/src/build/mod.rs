//! The compiler: what many sources say becomes one snapshot of final records, with a report of what is known.

mod network;
mod place;
mod sweep;
mod tally;

use crate::download::checksum;
use crate::facts::{Facts, Range};
use crate::flags::Flags;
use crate::sources::{Kind, Source};
use ipse_geo::{About, Disorder, Draft, NetworkId, Origin, PlaceId, TooMany};
use place::Places;
use std::collections::HashMap;
use std::net::IpAddr;
use tally::{Known, Tally, Weight};

/// What snapshots say built them.
pub(crate) const BUILDER: &str = concat!("ipse ", env!("CARGO_PKG_VERSION"));

/// What a snapshot is built from.
pub struct Recipe<'a> {
    /// Files that were read, in the order in which they are believed.
    pub sources: &'a [Source],
    /// Which networks are flagged.
    pub flags: &'a Flags,
    /// When it is built, in Unix seconds.
    pub built: i64,
}

/// How far a build has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ranges are merged: how many of how many.
    Merging {
        /// Those that are done.
        done: u64,
        /// All of them.
        total: u64,
    },
    /// The snapshot is written.
    Packing,
}

/// A snapshot that could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is nothing to build from.
    #[error("there is no source to build from")]
    Nothing,
    /// A table whose ranges are not in order.
    #[error(transparent)]
    Disorder(#[from] Disorder),
    /// Too large a world.
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

/// How a source is called in reports. Files of one vendor and kind share a label, such as those of IPv4 and IPv6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Label<'a>(&'a str);

impl Label<'_> {
    fn text(self) -> String {
        self.0.to_owned()
    }
}

/// Pairs of a field and what gave it.
type Rules = Vec<(&'static str, String)>;

/// Builds a snapshot.
pub fn build(recipe: &Recipe<'_>, progress: &mut dyn FnMut(Step)) -> Result<Vec<u8>, BuildError> {
    if recipe.sources.is_empty() {
        return Err(BuildError::Nothing);
    }
    let labels: Vec<String> = recipe.sources.iter().map(label).collect();
    let mut merge = Merge::new(recipe, &labels);
    let (v4, v6) = (
        tables(recipe.sources, |source| &source.table.v4),
        tables(recipe.sources, |source| &source.table.v6),
    );
    let total = (v4.iter().map(|ranges| ranges.len()).sum::<usize>()
        + v6.iter().map(|ranges| ranges.len()).sum::<usize>()) as u64;
    let mut done = 0;
    let mut advance = |pieces: u64| {
        done += pieces;
        // Pieces are about as many as ranges, and never fewer.
        progress(Step::Merging { done: done.min(total), total });
    };
    merge.family(&v4, |ip| IpAddr::V4(ip.into()), tally::v4, &mut advance)?;
    merge.family(&v6, |ip| IpAddr::V6(ip.into()), tally::v6, &mut advance)?;
    progress(Step::Packing);
    merge.finish(recipe)
}

fn label(source: &Source) -> String {
    format!("{} {}", source.about.schema, source.about.kind)
}

fn tables<T>(sources: &[Source], pick: impl Fn(&Source) -> &Vec<Range<T>>) -> Vec<&[Range<T>]> {
    sources.iter().map(|source| pick(source).as_slice()).collect()
}

/// Records are told once for each combination of what the sources say.
struct Merge<'a> {
    recipe: &'a Recipe<'a>,
    labels: &'a [String],
    /// Which of the sources tell of places and of networks, as indexes, in the order in which they are believed.
    place_chain: Vec<usize>,
    network_chain: Vec<usize>,
    places: Places,
    draft: Draft,
    place_combinations: Combinations<'a, PlaceId>,
    network_combinations: Combinations<'a, NetworkId>,
    tally: Tally<'a>,
}

struct Combinations<'a, Id> {
    indexes: HashMap<Box<[u32]>, u32>,
    told: Vec<Combination<'a, Id>>,
    rules: HashMap<Rules, u32>,
}

struct Combination<'a, Id> {
    /// Nothing, if the sources agree to know nothing.
    id: Option<Id>,
    known: Known,
    rules: u32,
    conflicts: Vec<(&'static str, Label<'a>, Label<'a>)>,
    weight: Weight,
}

/// How many pieces pass between two reports of progress.
const REPORT_EVERY: u64 = 1 << 16;

impl<'a> Merge<'a> {
    fn new(recipe: &'a Recipe<'a>, labels: &'a [String]) -> Self {
        let chain = |kinds: &[Kind]| {
            let of = |kind: &Kind| {
                let kind = *kind;
                (0..recipe.sources.len()).filter(move |source| recipe.sources[*source].about.kind == kind)
            };
            kinds.iter().flat_map(of).collect()
        };
        Self {
            recipe,
            labels,
            place_chain: chain(&[Kind::City, Kind::Country]),
            network_chain: chain(&[Kind::Asn, Kind::Anonymous]),
            places: Places::new(),
            draft: Draft::new(About::default()),
            place_combinations: Combinations::new(),
            network_combinations: Combinations::new(),
            tally: Tally::default(),
        }
    }

    fn family<T: sweep::Number>(
        &mut self,
        tables: &[&[Range<T>]],
        ip: impl Fn(T) -> IpAddr,
        weight: impl Fn(T, T) -> Weight,
        advance: &mut dyn FnMut(u64),
    ) -> Result<(), BuildError> {
        let mut pieces = 0;
        let mut said_by_chain = Vec::new();
        sweep::sweep(tables, |first, last, said| {
            let weight = weight(first, last);
            pick(&self.place_chain, said, &mut said_by_chain);
            let place = self.place(&said_by_chain, weight);
            pick(&self.network_chain, said, &mut said_by_chain);
            let network = self.network(&said_by_chain, weight);
            let known = place.map_or(0, |place| self.place_combinations.told[place].known)
                | network.map_or(0, |network| self.network_combinations.told[network].known);
            self.tally.known(known, weight);
            let place = place.and_then(|place| self.place_combinations.told[place].id);
            let network = network.and_then(|network| self.network_combinations.told[network].id);
            self.draft.range(ip(first), ip(last), place, network)?;
            pieces += 1;
            if pieces == REPORT_EVERY {
                advance(std::mem::take(&mut pieces));
            }
            Ok(())
        })
    }

    fn place(&mut self, said: &[u32], weight: Weight) -> Option<usize> {
        let (recipe, labels, chain) = (self.recipe, self.labels, &self.place_chain);
        let (places, draft) = (&mut self.places, &mut self.draft);
        self.place_combinations.find(said, weight, || {
            let told = places.tell(&facts(recipe, labels, chain, said));
            let known = tally::known_place(&told.place);
            let id = (known != 0).then(|| draft.place(&told.place, origin(&told.origins)));
            (id, known, told.origins, told.conflicts)
        })
    }

    fn network(&mut self, said: &[u32], weight: Weight) -> Option<usize> {
        let (recipe, labels, chain, draft) = (self.recipe, self.labels, &self.network_chain, &mut self.draft);
        self.network_combinations.find(said, weight, || {
            let told = network::tell(&facts(recipe, labels, chain, said), recipe.flags);
            let known = tally::known_network(&told.network);
            let is_told = told.network != ipse_model::Network::default();
            let id = is_told.then(|| draft.network(told.network, origin(&told.origins)));
            (id, known, told.rules, told.conflicts)
        })
    }

    fn finish(mut self, recipe: &Recipe<'_>) -> Result<Vec<u8>, BuildError> {
        self.place_combinations.count(&mut self.tally);
        self.network_combinations.count(&mut self.tally);
        let (coverage, fills, conflicts) = self.tally.report();
        self.draft.describe(About {
            built: recipe.built,
            builder: BUILDER.to_owned(),
            sources: recipe.sources.iter().map(about).collect(),
            coverage,
            fills,
            conflicts,
        });
        Ok(self.draft.write()?)
    }
}

impl<'a, Id> Combinations<'a, Id> {
    fn new() -> Self {
        Self { indexes: HashMap::new(), told: Vec::new(), rules: HashMap::new() }
    }

    /// The record of a combination, which is told when it is met for the first time.
    fn find(
        &mut self,
        said: &[u32],
        weight: Weight,
        tell: impl FnOnce() -> (Option<Id>, Known, Rules, Vec<(&'static str, Label<'a>, Label<'a>)>),
    ) -> Option<usize> {
        if said.iter().all(|said| *said == 0) {
            return None;
        }
        let index = if let Some(index) = self.indexes.get(said) {
            *index
        } else {
            let (id, known, rules, conflicts) = tell();
            let next = count(self.rules.len());
            let rules = *self.rules.entry(rules).or_insert(next);
            self.told.push(Combination { id, known, rules, conflicts, weight: Weight::default() });
            let index = count(self.told.len() - 1);
            self.indexes.insert(said.into(), index);
            index
        };
        self.told[index as usize].weight += weight;
        Some(index as usize)
    }

    fn count(self, tally: &mut Tally<'a>) {
        let mut sums = vec![(0, Weight::default()); self.rules.len()];
        for combination in &self.told {
            let (records, weight) = &mut sums[combination.rules as usize];
            *records += 1;
            *weight += combination.weight;
            for (field, believed, other) in &combination.conflicts {
                tally.conflict(field, *believed, *other, combination.weight);
            }
        }
        let mut rules: Vec<_> = self.rules.into_iter().collect();
        rules.sort_unstable_by_key(|(_, index)| *index);
        for (rules, index) in rules {
            let (records, weight) = sums[index as usize];
            tally.rules(&rules, records, weight);
        }
    }
}

/// What the sources of a chain say.
fn pick(chain: &[usize], said: &[u32], by_chain: &mut Vec<u32>) {
    by_chain.clear();
    by_chain.extend(chain.iter().map(|source| said[*source]));
}

fn facts<'a>(
    recipe: &'a Recipe<'a>,
    labels: &'a [String],
    chain: &[usize],
    said: &[u32],
) -> Vec<(Label<'a>, &'a Facts)> {
    chain
        .iter()
        .zip(said)
        .filter_map(|(source, said)| {
            let facts = (*said as usize).checked_sub(1)?;
            Some((Label(&labels[*source]), &recipe.sources[*source].table.facts[facts]))
        })
        .collect()
}

fn origin(rules: &Rules) -> Origin {
    rules.iter().map(|(field, by)| ((*field).to_owned(), by.clone())).collect()
}

fn about(source: &Source) -> ipse_geo::Source {
    let about = &source.about;
    ipse_geo::Source {
        kind: about.kind.to_string(),
        name: about
            .database_type
            .as_deref()
            .map_or_else(|| label(source), |database_type| format!("{} {database_type}", about.schema)),
        file: about.file_name.clone(),
        bytes: about.bytes,
        sha256: checksum::hex(&about.sha256),
        built: about.built.and_then(|built| i64::try_from(built).ok()),
        licence: about.licence.map(str::to_owned),
        attribution: about.attribution.map(str::to_owned),
        ranges: about.networks,
        skipped: about.bad_lines + about.overlaps,
    }
}

/// Each takes more than one byte of memory, so there are fewer than 2³² of anything.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
