//! Where connections wait that come to a loop from elsewhere.

use super::Guest;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Wakes its loop when something lies in it.
pub(crate) struct Mailbox {
    bell: OwnedFd,
    /// None when nobody looks into it any more.
    guests: Mutex<Option<Vec<Guest>>>,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { bell, guests: Mutex::new(Some(Vec::new())) })
    }

    /// Puts a connection into it, or gives it back if nobody looks into it any more.
    pub(crate) fn put(&self, guest: Guest) -> Result<(), Guest> {
        match &mut *self.guests.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(guests) => guests.push(guest),
            None => return Err(guest),
        }
        self.ring();
        Ok(())
    }

    /// Wakes the loop.
    pub(crate) fn ring(&self) {
        // It cannot be full: it counts.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// All that lies in it.
    pub(super) fn take(&self) -> Vec<Guest> {
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// All that lies in it, for the last time.
    pub(super) fn close(&self) -> Vec<Guest> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
