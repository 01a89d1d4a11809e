//! The PROXY protocol: what a trusted proxy says about the caller before the first byte of theirs.

use crate::facts;
use crate::tls::TlsFacts;
use ipse_model::{Address, HttpVersion};
use proxy_protocol_rs::{Command, ProxyInfo, SslClientFlags, parse};
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How long a proxy may take to introduce its caller: it says so before anything else.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest line of version 1.
const LONGEST_LINE: usize = 107;
/// What version 2 has before the part whose length it says.
const HEAD: usize = 16;
/// More than any proxy has to say; the protocol would allow 64 KiB.
const LONGEST_REST: usize = 4096;

/// The caller as a proxy introduces them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Introduced {
    pub(crate) address: Address,
    /// By ALPN: the protocol that the caller and the proxy agreed on.
    pub(crate) http: Option<HttpVersion>,
    pub(crate) tls: Option<TlsFacts>,
}

/// Reads the introduction and not a byte more. `None` if the proxy speaks for itself, as it does for looking whether we
/// live.
pub(crate) async fn introduction(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Introduced>> {
    let header = tokio::time::timeout(TIMEOUT, read(stream)).await??;
    let wrong = || io::Error::from(ErrorKind::InvalidData);
    let (info, length) = parse(&header).map_err(|_| wrong())?;
    if length == header.len() { Ok(introduced(&info)) } else { Err(wrong()) }
}

/// The bytes of a header: a line of text, or a head that says how much follows.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let wrong = || Err(ErrorKind::InvalidData.into());
    let mut header = vec![stream.read_u8().await?];
    if header == b"P" {
        // Byte by byte, because what follows the line is not ours to take.
        while !header.ends_with(b"\n") {
            if header.len() == LONGEST_LINE {
                return wrong();
            }
            header.push(stream.read_u8().await?);
        }
        return Ok(header);
    }
    header.resize(HEAD, 0);
    stream.read_exact(&mut header[1..]).await?;
    let rest = usize::from(u16::from_be_bytes([header[14], header[15]]));
    if !header.starts_with(proxy_protocol_rs::V2_SIGNATURE) || rest > LONGEST_REST {
        return wrong();
    }
    header.resize(HEAD + rest, 0);
    stream.read_exact(&mut header[HEAD..]).await?;
    Ok(header)
}

fn introduced(info: &ProxyInfo) -> Option<Introduced> {
    if info.command != Command::Proxy {
        return None;
    }
    let address = Address::new(info.source_ip()?);
    let text = |alpn: &Vec<u8>| String::from_utf8(alpn.clone()).ok();
    let http = info.tlvs.alpn.as_ref().and_then(text).and_then(|alpn| facts::http_version(&alpn));
    let tls = info.tlvs.ssl.as_ref().filter(|ssl| ssl.client_flags.contains(SslClientFlags::SSL));
    let tls = tls.and_then(|ssl| {
        let version = facts::tls_version(ssl.version.as_deref()?)?;
        Some(TlsFacts { version, cipher: ssl.cipher.as_deref().and_then(facts::cipher) })
    });
    Some(Introduced { address, http, tls })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipse_model::TlsVersion;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    /// What is made of these bytes, and what is left behind them.
    async fn introduce(bytes: &[u8]) -> (io::Result<Option<Introduced>>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut proxy = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        proxy.write_all(bytes).await.unwrap();
        proxy.shutdown().await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let introduction = introduction(&mut stream).await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        (introduction, rest)
    }

    fn plain(ip: &str) -> Introduced {
        Introduced { address: Address::new(ip.parse().unwrap()), http: None, tls: None }
    }

    #[tokio::test]
    async fn a_line_of_text_introduces_and_nothing_behind_it_is_taken() {
        let (introduced, rest) =
            introduce(b"PROXY TCP4 203.0.113.7 192.0.2.1 56324 443\r\nGET / HTTP/1.1\r\n").await;
        assert_eq!(introduced.unwrap(), Some(plain("203.0.113.7")));
        assert_eq!(rest, b"GET / HTTP/1.1\r\n");
        let (introduced, _) = introduce(b"PROXY TCP6 2001:db8::7 2001:db8::1 1 2\r\n").await;
        assert_eq!(introduced.unwrap(), Some(plain("2001:db8::7")));
        let (introduced, _) = introduce(b"PROXY UNKNOWN\r\nGET").await;
        assert_eq!(introduced.unwrap(), None);
    }

    /// A header of version 2 with this command and these bytes behind the addresses of IPv4.
    fn version_2(command: u8, tlvs: &[u8]) -> Vec<u8> {
        let mut header = proxy_protocol_rs::V2_SIGNATURE.to_vec();
        header.extend([command, 0x11]);
        header.extend(u16::try_from(12 + tlvs.len()).unwrap().to_be_bytes());
        header.extend([203, 0, 113, 7, 192, 0, 2, 1, 0xdc, 0x04, 0x01, 0xbb]);
        header.extend(tlvs);
        header
    }

    fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
        [&[kind][..], &u16::try_from(value.len()).unwrap().to_be_bytes(), value].concat()
    }

    #[tokio::test]
    async fn version_2_tells_of_tls() {
        let ssl = [&[1, 0, 0, 0, 0][..], &tlv(0x21, b"TLSv1.2"), &tlv(0x23, b"ECDHE-RSA-AES128-GCM-SHA256")]
            .concat();
        let header = version_2(0x21, &[tlv(0x01, b"h2"), tlv(0x20, &ssl)].concat());
        let (introduced, rest) = introduce(&[&header[..], b"GET"].concat()).await;
        let cipher = Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".into());
        let tls = Some(TlsFacts { version: TlsVersion::Tls12, cipher });
        assert_eq!(
            introduced.unwrap(),
            Some(Introduced { http: Some(HttpVersion::Http2), tls, ..plain("203.0.113.7") })
        );
        assert_eq!(rest, b"GET");
        // A proxy that looks whether we live.
        let (introduced, _) = introduce(&version_2(0x20, &[])).await;
        assert_eq!(introduced.unwrap(), None);
    }

    #[tokio::test]
    async fn what_is_no_introduction_is_refused() {
        let long = format!("PROXY TCP4 {}\r\n", "1".repeat(200));
        let huge = [&proxy_protocol_rs::V2_SIGNATURE[..], &[0x21, 0x11, 0xff, 0xff], &[0; 70_000]].concat();
        let wrong_checksum = version_2(0x21, &tlv(0x03, &[1, 2, 3, 4]));
        for bytes in [
            &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..],
            b"",
            b"P",
            b"PROXY TCP4 203.0.113.7 192.0.2.1 56324\r\n",
            b"PROXY TCP4 2001:db8::7 192.0.2.1 1 2\r\n",
            b"\r\n\r\n\0\r\nQUIT\n",
            long.as_bytes(),
            &huge,
            &wrong_checksum,
            &version_2(0x21, &[0x20, 0xff]),
        ] {
            let (introduced, _) = introduce(bytes).await;
            assert!(introduced.is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
