use super::*;

fn request(opcode: u32, extension_words: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = u32::try_from(HEADER_IN + body.len()).expect("a short request");
    for number in [length, opcode] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes.extend(77u64.to_ne_bytes());
    bytes.extend(5u64.to_ne_bytes());
    for number in [1000u32, 100, 4321] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes.extend(extension_words.to_ne_bytes());
    bytes.extend(0u16.to_ne_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn a_lookup_is_a_name() {
    let bytes = request(1, 0, b"photo.jpg\0");
    let request = Request::split(&bytes).expect("the request is complete");
    assert_eq!(request.opcode, Opcode::Lookup);
    assert_eq!((request.header.unique, request.header.node, request.header.uid), (77, 5, 1000));
    assert_eq!(request.payload_fields().name(), Ok(c"photo.jpg"));
}

#[test]
fn the_supplementary_group_lies_in_an_extension() {
    let mut body = Vec::new();
    for number in [0o755u32, 0o022] {
        body.extend(number.to_ne_bytes());
    }
    body.extend(b"dir\0");
    for number in [16, EXTENSION_GROUPS, 1, 2500] {
        body.extend(number.to_ne_bytes());
    }
    let bytes = request(9, 2, &body);
    assert_eq!(Request::split(&bytes).expect("the request is complete").supplementary_group(), Some(2500));
    let bytes = request(9, 0, &body[..12]);
    assert_eq!(Request::split(&bytes).expect("the request is complete").supplementary_group(), None);
}

#[test]
fn what_is_cut_short_is_refused() {
    let whole = request(15, 0, &[0; 40]);
    for length in 0..whole.len() {
        assert!(Request::split(&whole[..length]).is_err(), "{length} bytes");
    }
    assert!(Request::split(&whole).is_ok());
    assert_eq!(
        Request::split(&request(1, 0, b"no zero")).expect("the request is complete").payload_fields().name(),
        Err(Malformed)
    );
}

#[test]
fn an_unknown_opcode_is_known_as_such() {
    for number in [0, 7, 63, 64, 4096, u32::MAX] {
        assert_eq!(Opcode::from_number(number), Opcode::Unknown);
    }
}
