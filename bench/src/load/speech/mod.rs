//! HTTP as the generator speaks it: requests out of parts that are ready, answers read as far as they must be.

mod http1;
mod http2;

use super::channel::{Channel, Manner};
use super::requests::Request;
use anyhow::Result;
use http2::Http2;

/// Room for answers, which all connections share.
pub(super) struct Room {
    bytes: Vec<u8>,
}

impl Room {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; 64 * 1024] }
    }
}

/// An answer.
pub(super) struct Answer<'a> {
    pub(super) body: &'a [u8],
    /// With its head.
    pub(super) bytes: usize,
}

/// A connection, and how it is spoken on it.
pub(super) struct Caller {
    pub(super) channel: Channel,
    /// The number of the request that is not answered.
    pub(super) asked: Option<usize>,
    asking: Vec<u8>,
    /// What has come of an answer that is not whole.
    part: Vec<u8>,
    http2: Option<Http2>,
}

impl Caller {
    pub(super) fn new(channel: Channel, manner: Manner) -> Self {
        let http2 = (manner == Manner::Http2).then(Http2::default);
        Self { channel, asking: Vec::new(), part: Vec::new(), asked: None, http2 }
    }

    pub(super) fn ask(&mut self, request: Request<'_>) -> Result<()> {
        self.asking.clear();
        match &mut self.http2 {
            Some(http2) => http2.write(request, &mut self.asking),
            None => http1::write(request, &mut self.asking),
        }
        self.asked = Some(request.number);
        self.channel.send(&self.asking)
    }

    /// The answer, if it is there whole.
    pub(super) fn answer<'a>(&'a mut self, room: &'a mut Room) -> Result<Option<Answer<'a>>> {
        let Some(read) = self.channel.receive(&mut room.bytes)? else { return Ok(None) };
        let came = &room.bytes[..read];
        if let Some(http2) = &mut self.http2 {
            self.asking.clear();
            let is_whole = http2.read(came, &mut self.asking)?;
            if !self.asking.is_empty() {
                self.channel.send(&self.asking)?;
            }
            return Ok(is_whole.then(|| Answer { body: http2.body(), bytes: read }));
        }
        if self.part.is_empty() {
            if let Some(head) = http1::whole(came)? {
                return Ok(Some(Answer { body: &room.bytes[head..read], bytes: read }));
            }
            self.part.extend_from_slice(came);
            return Ok(None);
        }
        self.part.extend_from_slice(came);
        let Some(head) = http1::whole(&self.part)? else { return Ok(None) };
        let bytes = self.part.len();
        room.bytes[..bytes].copy_from_slice(&self.part);
        self.part.clear();
        Ok(Some(Answer { body: &room.bytes[head..bytes], bytes }))
    }
}
