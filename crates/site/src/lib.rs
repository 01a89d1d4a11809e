//! The pages that people read: the front page with the visitor's own answer, the documentation, accounts and the dashboard.
//!
//! Every page is made here, whole, from a template, and asks no other host for anything. This crate never looks
//! anything up and never counts anything: it is told what the atlas found and what the counters say, and shows it.

mod account;
mod assets;
mod attribution;
mod charts;
mod csv;
mod desk;
mod docs;
mod doctor;
mod document;
mod enterprise;
mod errors;
mod examples;
mod field;
mod fields;
mod guard;
mod home;
mod key_form;
mod key_name;
mod key_page;
mod key_view;
mod keys;
mod legal;
mod links;
mod mail;
mod map;
mod office;
mod operator;
mod overview;
mod packing;
mod page;
mod projection;
mod reply;
mod route;
mod site;
mod told;
mod utc;
mod visitor;
mod visits;

pub use desk::Desk;
pub use doctor::{Examination, examination_as_text, lie, remarks_as_text};
pub use document::{Document, DocumentFault};
pub use mail::{MailPlan, MailTls, NotASender, Sender};
pub use operator::{Contact, Operator};
pub use overview::{Chore, Overview, Span};
pub use site::{Site, SiteError, SitePlan};
pub use visits::{PageOutcome, PageVisits};
