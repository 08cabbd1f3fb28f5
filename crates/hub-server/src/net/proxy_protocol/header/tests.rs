#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

/// A header as a proxy writes it, with `tlvs` behind the addresses.
pub(in crate::net::proxy_protocol) fn encode(from: SocketAddr, to: SocketAddr, tlvs: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let family = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            body.extend([from.octets(), to.octets()].concat());
            TCP4
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            body.extend([from.octets(), to.octets()].concat());
            TCP6
        }
        _ => panic!("two families"),
    };
    body.extend([from.port().to_be_bytes(), to.port().to_be_bytes()].concat());
    body.extend(tlvs);
    raw(0x21, family, &body)
}

fn raw(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend([command, family]);
    bytes.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    bytes.extend(body);
    bytes
}

fn source(bytes: &[u8]) -> Source {
    match parse(bytes).unwrap() {
        Parsed::Complete { source, bytes: length } if length == bytes.len() => source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_header_as_the_specification_draws_it_is_read() {
    let bytes = b"\x0d\x0a\x0d\x0a\x00\x0d\x0aQUIT\x0a\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\xdc\x04\x01\xbb";
    assert_eq!(source(bytes), Source::Client("192.0.2.1:56324".parse().unwrap()));
}

#[test]
fn local_and_other_families_leave_the_peer() {
    let addresses = [7; 36];
    for bytes in [
        raw(0x20, 0x00, &[]),
        raw(0x20, TCP4, &addresses),
        raw(0x20, 0xff, &[]),
        raw(0x21, 0x00, &[]),
        raw(0x21, 0x00, &addresses),
        raw(0x21, 0x12, &addresses),
        raw(0x21, 0x22, &addresses),
        raw(0x21, 0x31, &[0; 216]),
    ] {
        assert_eq!(source(&bytes), Source::Peer, "{bytes:?}");
    }
}

#[test]
fn what_is_no_header_of_version_2_is_refused_with_the_reason() {
    for (bytes, why) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), BadHeader::Signature),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(), BadHeader::Signature),
        (vec![22, 3, 1], BadHeader::Signature),
        (raw(0x11, TCP4, &[0; 12]), BadHeader::Version(1)),
        (raw(0x22, TCP4, &[0; 12]), BadHeader::Command(2)),
        (raw(0x21, 0x41, &[0; 12]), BadHeader::Family(0x41)),
        (raw(0x21, 0x13, &[0; 12]), BadHeader::Family(0x13)),
        (raw(0x21, TCP4, &[0; 11]), BadHeader::TooShort { found: 11, needed: 12 }),
        (raw(0x21, TCP6, &[0; 35]), BadHeader::TooShort { found: 35, needed: 36 }),
        (raw(0x21, TCP4, &[0; 537]), BadHeader::TooLong(537)),
        (raw(0x20, 0, &[0; 537]), BadHeader::TooLong(537)),
    ] {
        assert_eq!(parse(&bytes), Err(why), "{bytes:?}");
    }
    assert_eq!(source(&raw(0x21, TCP4, &[1; MAX_BODY_BYTES])).to_owned(), {
        Source::Client("1.1.1.1:257".parse().unwrap())
    });
}

fn addresses() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = any::<([u8; 4], u16, [u8; 4], u16)>().prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into()));
    let v6 = any::<([u8; 16], u16, [u8; 16], u16)>().prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into()));
    prop_oneof![v4, v6]
}

proptest! {
    #[test]
    fn a_header_is_read_as_it_was_written_and_nothing_behind_it(
        (from, to) in addresses(),
        tlvs in prop::collection::vec(any::<u8>(), 0..500),
        behind in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = encode(from, to, &tlvs);
        let length = bytes.len();
        for part in 0..length {
            // It never asks for more than the header has.
            let asked = parse(&bytes[..part]);
            prop_assert!(
                matches!(asked, Ok(Parsed::Incomplete { at_least }) if part < at_least && at_least <= length),
                "{part}: {asked:?}"
            );
        }
        bytes.extend(behind);
        prop_assert_eq!(parse(&bytes), Ok(Parsed::Complete { source: Source::Client(from), bytes: length }));
    }

    #[test]
    fn no_bytes_make_it_panic_or_claim_more_than_there_is(
        begins in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..700),
    ) {
        let bytes = if begins { [&SIGNATURE[..], &bytes].concat() } else { bytes };
        match parse(&bytes) {
            Ok(Parsed::Complete { bytes: length, .. }) => prop_assert!(length <= bytes.len()),
            Ok(Parsed::Incomplete { at_least }) => {
                prop_assert!(at_least > bytes.len() && at_least <= MAX_BYTES);
            }
            Err(_) => {}
        }
    }
}
