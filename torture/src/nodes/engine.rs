//! The engine that the nodes count with, and what can happen to it.

use anyhow::Result;
use ipse_testkit::{Flavour, Link, Random, Redis, Watched, Way};
use std::thread::sleep;
use std::time::Duration;

const LONGEST_TROUBLE_MS: u64 = 1_500;

/// One server that each node reaches by a way of its own, or two of which a sentinel makes one the master.
pub(crate) enum Engine {
    Alone { server: Redis, links: Vec<Link> },
    Watched(Watched),
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mishap {
    Killed,
    Flushed,
    Frozen,
    CutOff,
    FailedOver,
    SplitInTwo,
    HandedOver,
}

impl Engine {
    pub(crate) fn alone(flavour: Flavour, nodes: usize) -> Result<Self> {
        let server = Redis::start(flavour)?;
        let links = (0..nodes).map(|_| Link::to(server.address)).collect::<Result<_>>()?;
        Ok(Self::Alone { server, links })
    }

    pub(crate) fn watched(flavour: Flavour) -> Result<Self> {
        Ok(Self::Watched(Watched::start(flavour)?))
    }

    /// Where a node finds it.
    pub(crate) fn url(&self, node: usize) -> String {
        match self {
            Self::Alone { links, .. } => format!("redis://{}", links[node].address),
            Self::Watched(watched) => watched.url(),
        }
    }

    /// Waits until it is whole again: that a sentinel tells one who was the master that it is none any more takes its time.
    pub(crate) fn settle(&self) -> Result<()> {
        match self {
            Self::Alone { .. } => Ok(()),
            Self::Watched(watched) => watched.settle(),
        }
    }

    /// Lets something happen, and returns when it is over.
    pub(crate) fn suffer(&mut self, random: &mut Random) -> Result<Mishap> {
        let lasting = Duration::from_millis(random.below(LONGEST_TROUBLE_MS));
        match self {
            Self::Alone { server, links } => match random.below(4) {
                0 => {
                    server.kill();
                    sleep(lasting);
                    server.run()?;
                    Ok(Mishap::Killed)
                }
                1 => {
                    server.say(&["FLUSHALL"])?;
                    Ok(Mishap::Flushed)
                }
                2 => {
                    server.freeze(true)?;
                    sleep(lasting);
                    server.freeze(false)?;
                    Ok(Mishap::Frozen)
                }
                _ => {
                    for link in links.iter() {
                        link.set(*random.pick(&[Way::Open, Way::Held, Way::RepliesHeld, Way::Closed]));
                    }
                    sleep(lasting);
                    links.iter().for_each(|link| link.set(Way::Open));
                    Ok(Mishap::CutOff)
                }
            },
            Self::Watched(watched) => match random.below(4) {
                0 => {
                    let old = watched.master()?;
                    watched.servers[old].kill();
                    watched.wait_for_master(1 - old)?;
                    // It comes back as the master of nobody, until it is told.
                    watched.servers[old].run()?;
                    Ok(Mishap::FailedOver)
                }
                1 => {
                    let old = watched.master()?;
                    watched.servers[old].freeze(true)?;
                    watched.wait_for_master(1 - old)?;
                    // Now there are two who think to be the master.
                    watched.servers[old].freeze(false)?;
                    Ok(Mishap::SplitInTwo)
                }
                2 => {
                    let old = watched.master()?;
                    watched.fail_over()?;
                    watched.wait_for_master(1 - old)?;
                    Ok(Mishap::HandedOver)
                }
                _ => {
                    let master = watched.master()?;
                    watched.servers[master].say(&["FLUSHALL"])?;
                    Ok(Mishap::Flushed)
                }
            },
        }
    }
}
