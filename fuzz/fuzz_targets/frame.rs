//! Bytes of a stranger as a frame of the gateway: nothing panics, and whatever is answered is JSON.
#![no_main]

use hub_server::gateway::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzzing::frame(data));
