//! The pages that people read: the front page with the visitor's own answer, the documentation, and how to get a key.
//!
//! Every page is made here, whole, from a template, and asks no other host for anything. This crate never looks
//! anything up, never counts anything and knows no key: it is told what the atlas found, and shows it.

mod assets;
mod attribution;
mod docs;
mod doctor;
mod document;
mod enterprise;
mod errors;
mod examples;
mod fields;
mod home;
mod legal;
mod links;
mod operator;
mod page;
mod projection;
mod reply;
mod signup;
mod site;
mod visitor;

pub use doctor::{Examination, examination_as_text, lie, remarks_as_text};
pub use document::{Document, DocumentFault};
pub use operator::{Contact, Operator};
pub use site::Site;
