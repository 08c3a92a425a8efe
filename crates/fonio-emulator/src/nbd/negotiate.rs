//! The negotiation: the server offers its export, and the client selects it.

use std::io::{self, Read, Write};

use fonio_sim::device::Limits;

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FLAG_FIXED_NEWSTYLE: u16 = 1;
const FLAG_NO_ZEROES: u16 = 2;

const OPT_EXPORT_NAME: u32 = 1;
const OPT_ABORT: u32 = 2;
const OPT_LIST: u32 = 3;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;

const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
const REP_INFO: u32 = 3;
const REP_ERR_UNSUP: u32 = (1 << 31) + 1;

const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

const TRANSMIT_HAS_FLAGS: u16 = 1;
const TRANSMIT_FLUSH: u16 = 1 << 2;
const TRANSMIT_FUA: u16 = 1 << 3;
const TRANSMIT_TRIM: u16 = 1 << 5;
const TRANSMIT_WRITE_ZEROES: u16 = 1 << 6;

/// Number of reserved zero bytes after the reply to `NBD_OPT_EXPORT_NAME`.
const OLD_ANSWER_ZEROES: usize = 124;

/// Maximum length of a valid option: a name of 4096 bytes and a few numbers.
const OPTION_BYTES_MAX: u32 = 8192;

/// Negotiates until the client starts to use the device (`true`) or disconnects (`false`).
pub(super) fn negotiate(input: &mut impl Read, output: &mut impl Write, limits: &Limits) -> io::Result<bool> {
    let mut greeting = Vec::new();
    greeting.extend(MAGIC.to_be_bytes());
    greeting.extend(OPTION_MAGIC.to_be_bytes());
    greeting.extend((FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    output.write_all(&greeting)?;
    let client_flags = u32::from_be_bytes(array(input)?);
    let no_zeroes = client_flags & u32::from(FLAG_NO_ZEROES) != 0;
    loop {
        if u64::from_be_bytes(array(input)?) != OPTION_MAGIC {
            return Err(invalid("not an NBD option"));
        }
        let option = u32::from_be_bytes(array(input)?);
        let length = u32::from_be_bytes(array(input)?);
        if length > OPTION_BYTES_MAX {
            return Err(invalid("the NBD option is too long"));
        }
        let mut data = vec![0; length as usize];
        input.read_exact(&mut data)?;
        match option {
            OPT_EXPORT_NAME => {
                let mut answer = limits.capacity.0.to_be_bytes().to_vec();
                answer.extend(transmission_flags(limits).to_be_bytes());
                if !no_zeroes {
                    answer.resize(answer.len() + OLD_ANSWER_ZEROES, 0);
                }
                output.write_all(&answer)?;
                return Ok(true);
            }
            OPT_ABORT => {
                answer(output, option, REP_ACK, &[])?;
                return Ok(false);
            }
            OPT_LIST => {
                // The only export has an empty name: four bytes of length, all zero.
                answer(output, option, REP_SERVER, &[0; 4])?;
                answer(output, option, REP_ACK, &[])?;
            }
            OPT_INFO | OPT_GO => {
                let mut export = INFO_EXPORT.to_be_bytes().to_vec();
                export.extend(limits.capacity.0.to_be_bytes());
                export.extend(transmission_flags(limits).to_be_bytes());
                answer(output, option, REP_INFO, &export)?;
                let mut sizes = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
                for size in [512, 4096, super::PAYLOAD_BYTES_MAX] {
                    sizes.extend(size.to_be_bytes());
                }
                answer(output, option, REP_INFO, &sizes)?;
                answer(output, option, REP_ACK, &[])?;
                if option == OPT_GO {
                    return Ok(true);
                }
            }
            _ => answer(output, option, REP_ERR_UNSUP, &[])?,
        }
    }
}

fn transmission_flags(limits: &Limits) -> u16 {
    let mut flags = TRANSMIT_HAS_FLAGS | TRANSMIT_WRITE_ZEROES;
    if limits.volatile_cache {
        flags |= TRANSMIT_FLUSH;
    }
    if limits.fua {
        flags |= TRANSMIT_FUA;
    }
    if limits.discard_granularity.is_some() {
        flags |= TRANSMIT_TRIM;
    }
    flags
}

fn answer(output: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    output.write_all(&bytes)
}

fn array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
