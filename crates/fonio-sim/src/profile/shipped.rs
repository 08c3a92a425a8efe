//! The profiles that come with fonio.

macro_rules! shipped {
    ($($name:literal: $about:literal,)*) => {
        /// The name of every shipped profile, with what it is in a line.
        pub const SHIPPED: &[(&str, &str)] = &[$(($name, $about)),*];

        pub(super) fn text(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../../profiles/", $name, ".toml"))),)*
                _ => None,
            }
        }
    };
}

shipped! {
    "transcend": "16 GB microSDHC card, class 2 (Kim et al. 2012)",
    "ridata": "16 GB microSDHC card, class 2 (Kim et al. 2012)",
    "sandisk": "16 GB microSDHC card, class 4 (Kim et al. 2012)",
    "kingston": "16 GB microSDHC card, class 4 (Kim et al. 2012)",
    "wintec": "16 GB microSDHC card, class 6 (Kim et al. 2012)",
    "adata": "16 GB microSDHC card, class 6 (Kim et al. 2012)",
    "patriot": "16 GB microSDHC card, class 10 (Kim et al. 2012)",
    "pny": "16 GB microSDHC card, class 10 (Kim et al. 2012)",
}
