//! A manifest of any bytes, as found and with its checksum made right: it is refused, or it is read and written back as
//! the same thing.
#![no_main]

use hub_store_embedded::manifest::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    check(data);
    let mut bytes = b"EVHUBMAN\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(data);
    let sum = crc32c::crc32c(&bytes[16..]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    check(&bytes);
});

fn check(bytes: &[u8]) {
    let Ok(manifest) = Manifest::decode(bytes) else { return };
    let again = Manifest::decode(&manifest.encode()).expect("what was written can be read");
    assert_eq!(manifest, again);
}
