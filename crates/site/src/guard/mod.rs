//! What stands between a visitor and an account: cookies, forms, passwords, second factors, and patience with guessers.

pub(crate) mod cookie;
pub(crate) mod device;
pub(crate) mod form;
pub(crate) mod hasher;
pub(crate) mod once;
pub(crate) mod origin;
pub(crate) mod password;
pub(crate) mod second_factor;
pub(crate) mod session;
pub(crate) mod throttle;
