//! What came on a connection, and the requests in it.

use super::head::{Head, Outline};
use super::pending::Reading;
use super::turn::Turn;
use super::{Beginning, Resting, session};
use crate::clock::Stopwatch;
use crate::http2::hpack::Block;
use crate::prompt::{Ask, Prompt};
use crate::serve::{House, Line};
use http::Version;
use ipse_model::{Client, HttpVersion, Now};
use std::ops::Range;

/// What came on a connection.
pub(super) struct Came {
    pub(super) connection: usize,
    /// Where it stands among all input.
    pub(super) bytes: Range<usize>,
    pub(super) reading: Reading,
    /// How much of it was read, and answered.
    pub(super) at: usize,
    /// The request that comes next, if that was read already.
    pub(super) request: Option<Request>,
    /// What is said on a connection of HTTP/2 beside answers.
    pub(super) said: Vec<u8>,
    /// Behind what was read somebody else takes over.
    pub(super) leaves: Option<Beginning>,
}

impl Came {
    pub(super) fn new(connection: usize, bytes: Range<usize>, reading: Reading) -> Self {
        Self { connection, bytes, reading, at: 0, request: None, said: Vec::new(), leaves: None }
    }
}

/// A plain request.
pub(super) struct Request {
    /// Where its head stands: by HTTP/1 among all input, by HTTP/2 among all that was written out.
    pub(super) head: Range<usize>,
    pub(super) outline: Outline,
    /// Where it is answered by HTTP/2.
    pub(super) stream: Option<session::Stream>,
    client: Client,
    pub(super) now: Now,
    stopwatch: Stopwatch,
    pub(super) foreseen: Option<usize>,
}

impl<P: Prompt> Turn<P> {
    /// Reads the next request, if it is plain.
    pub(super) fn read<S>(
        &mut self,
        house: &House<S>,
        resting: &mut Resting,
        came: &mut Came,
        (now, stopwatch): (Now, Stopwatch),
    ) -> Option<Request> {
        let bytes = came.bytes.start + came.at..came.bytes.end;
        let Resting { guest, http2, .. } = resting;
        let Some(session) = http2.as_deref_mut() else {
            let head = Head::read(&self.input[bytes.clone()], &mut self.fields)?;
            let client = client(house, &guest.line, &head, HttpVersion::Http11, || guest.socket.rtt_ms())?;
            let outline = head.outline;
            return Some(Request {
                head: bytes,
                outline,
                stream: None,
                client,
                now,
                stopwatch,
                foreseen: None,
            });
        };
        let all = &self.input[came.bytes.clone()];
        let unanswered = match session.read(all, &mut came.at, &mut self.block, &mut came.said) {
            session::Next::Nothing => return None,
            session::Next::Unknown => None,
            session::Next::Broken(stream) => Some((stream, None)),
            session::Next::Request(stream) => {
                let Block { bytes, fields, is_cut } = &self.block;
                let is_simple = stream.is_whole && session.has_room() && !is_cut;
                let head = is_simple.then(|| Head::of_block(bytes, fields, b"https")).flatten();
                if let Some(head) = head
                    && let Some(client) =
                        client(house, &guest.line, &head, HttpVersion::Http2, || guest.socket.rtt_ms())
                {
                    let (begin, outline) = (self.heads.len(), head.outline);
                    self.heads.extend_from_slice(bytes);
                    let (head, stream) = (begin..self.heads.len(), Some(stream));
                    return Some(Request { head, outline, stream, client, now, stopwatch, foreseen: None });
                }
                Some((stream, Some(bytes.as_slice())))
            }
        };
        came.leaves = leave(resting, &self.input, came, unanswered);
        None
    }
}

impl Request {
    /// What is asked, by a head that stands among these.
    pub(super) fn ask<'a>(&'a self, input: &'a [u8], heads: &'a [u8]) -> Ask<'a> {
        let Self { outline, client, now, stopwatch, foreseen, .. } = self;
        let (among, version) = match self.stream {
            None => (input, Version::HTTP_11),
            Some(_) => (heads, Version::HTTP_2),
        };
        let head = &among[self.head.clone()];
        Ask {
            version,
            target: outline.target.of(head),
            authorization: outline.authorization.map(|part| part.of(head)),
            client,
            now: *now,
            stopwatch,
            foreseen: *foreseen,
        }
    }
}

/// Who asks. Once a proxy speaks for the caller, the round trip to the proxy says nothing about them, and is not asked for.
pub(crate) fn client<S>(
    house: &House<S>,
    line: &Line,
    head: &Head<'_>,
    version: HttpVersion,
    rtt_ms: impl FnOnce() -> Option<u32>,
) -> Option<Client> {
    // What a proxy received by HTTPS is answered with one more field.
    if house.hsts.is_some() && line.tls.is_none() && head.scheme == Some(b"https") {
        return None;
    }
    let mut connection = line.facts(Some(version), None);
    let reported = house.trust.reported(&connection, head);
    if reported.is_none() && line.introduced.is_none() {
        connection.rtt_ms = rtt_ms();
    }
    Some(house.trust.client_of(reported.as_ref(), &connection, head))
}

/// What somebody begins with who takes over a connection of HTTP/2, with a request that was read and is not answered here.
pub(super) fn leave(
    resting: &mut Resting,
    input: &[u8],
    came: &Came,
    unanswered: Option<(session::Stream, Option<&[u8]>)>,
) -> Option<Beginning> {
    let session = resting.http2.take()?;
    let all = &input[came.bytes.clone()];
    Some(match session.is_begun {
        true => session.leave(unanswered, &all[came.at..]),
        // Nothing was said yet, so it can begin anew.
        false => Beginning { bytes: all.to_vec(), ..Beginning::default() },
    })
}
