//! The functions of the kernel by address.

/// Maximum number of functions. Linux 6.18 has about 200,000 symbols.
const FUNCTIONS_MAX: usize = 1 << 20;

/// The functions, sorted by address.
#[derive(Debug, Default)]
pub(super) struct Symbols(Vec<(u64, Box<str>)>);

impl Symbols {
    /// Parses the text of `/proc/kallsyms`: an address, a letter and a name in each line. Hidden addresses are 0.
    pub fn from_kallsyms(text: &str) -> Symbols {
        let symbol = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
            let name = words.nth(1)?;
            let plain = name.split_once('.').map_or(name, |(plain, _)| plain);
            Some((address, fonio_core::shortened(plain, 128).to_string().into_boxed_str()))
        };
        let mut symbols: Vec<(u64, Box<str>)> = text.lines().filter_map(symbol).take(FUNCTIONS_MAX).collect();
        symbols.sort();
        Symbols(symbols)
    }

    /// Returns the function that contains the address.
    pub fn function(&self, address: u64) -> Option<&str> {
        let at = self.0.partition_point(|(begin, _)| *begin <= address).checked_sub(1)?;
        Some(&self.0[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = Symbols::from_kallsyms(
            "ffffffff81000100 T io_schedule\n0 T hidden\nffffffff81000000 t down_read.cold\nnonsense\n",
        );
        for (address, expected) in [
            (0xffff_ffff_8100_0010, Some("down_read")),
            (0xffff_ffff_8100_0100, Some("io_schedule")),
            (u64::MAX, Some("io_schedule")),
            (0x10, None),
        ] {
            assert_eq!(symbols.function(address), expected, "{address:x}");
        }
    }
}
