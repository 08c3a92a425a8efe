//! Data with the redundancy of 7-Zip's benchmark data, so that the ratings are comparable.
//!
//! The LZMA manual describes this data as neither text nor noise: about half of the steps add a random byte,
//! and the others repeat an earlier string, at distances whose logarithm is evenly distributed.

use fonio_core::random::Random;

/// Number of bits of the longest distance; all data up to 16 MiB can be repeated.
const DISTANCE_BITS: u64 = 24;
/// Shares in eighths. Chosen so that LZMA compresses the data to about a third, as 7-Zip's data.
const NEW_DISTANCE_EIGHTHS: u64 = 7;

/// Returns `size` bytes, which depend only on the size.
pub(crate) fn data(size: usize) -> Vec<u8> {
    let mut random = Random::new(1);
    let mut data: Vec<u8> = Vec::with_capacity(size + 64);
    let mut distance = 1;
    while data.len() < size {
        if data.is_empty() || random.below(2) == 0 {
            data.push(random.below(256) as u8);
            continue;
        }
        let length = if random.below(8) < NEW_DISTANCE_EIGHTHS {
            distance = distance_below(&mut random, data.len());
            2 + bits(&mut random, 2, 5)
        } else {
            1 + bits(&mut random, 0, 3)
        };
        for _ in 0..length {
            data.push(data[data.len() - distance]);
        }
    }
    data.truncate(size);
    data
}

/// Returns a distance from 1 to `most`; small distances are as frequent as large ones.
fn distance_below(random: &mut Random, most: usize) -> usize {
    loop {
        let distance = if random.below(2) == 0 {
            random.below(16)
        } else {
            let bits = (5 + random.below(16) + random.below(4)).min(DISTANCE_BITS);
            let top = 1 << (bits - 1);
            top + random.below(top)
        };
        if distance < most as u64 {
            return distance as usize + 1;
        }
    }
}

/// Returns a number of `least` to `most` random bits.
fn bits(random: &mut Random, least: u32, most: u32) -> usize {
    let bits = least + random.below(u64::from(most - least) + 1) as u32;
    random.below(1 << bits) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_the_same_each_time_and_a_shorter_one_is_its_beginning() {
        let long = data(1 << 16);
        assert_eq!(long.len(), 1 << 16);
        assert_eq!(data(1 << 15)[..], long[..1 << 15]);
    }
}
