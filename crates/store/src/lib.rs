//! What must be remembered: accounts, who is signed in, and keys ([`Records`]), and how much was used ([`Counters`]).
//!
//! The only crate that touches the database and the journal's files. No caller's address ever gets here.

mod boot;
mod counters;
mod database;
mod doctor;
mod error;
mod folder;
mod keytable;
mod ledger;
mod records;
mod redis;
mod report;
mod spread;
mod tally;
mod trust;

pub use boot::BootId;
pub use counters::{Asked, Counters, Engine, KeyCharge, Subject, Unwritten};
pub use database::{Database, DatabaseUrl, NotADatabase};
pub use doctor::DoctorLinks;
pub use error::Error;
pub use folder::{DataFolder, FolderLock};
pub use keytable::KeyTable;
pub use ledger::{Ledger, ground, used_in_journal};
pub use records::{
    Account, AccountId, Activity, ActivityRow, Claim, CopiedTable, Counting, Created, Email, KeyNews,
    KeyRecord, Login, NewKey, NewToken, Node, NotAnEmail, Notice, NoticeKind, OldText, Outcomes, OwnedKey,
    Portion, Profile, Proof, Range, Records, Session, Token, TokenPurpose, UsageRow, Wanted, random_secret,
};
pub use redis::{
    Away, CountersUrl, NotACountersUrl, Outage, Shared, SharedClock, SharedPlan, SharedReport, steps,
};
pub use report::CountersReport;
