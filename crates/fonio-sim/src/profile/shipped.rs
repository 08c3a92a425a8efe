//! The profiles shipped with fonio.

macro_rules! shipped {
    ($($name:literal: $about:literal,)*) => {
        /// The name and one-line description of every shipped profile.
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
    "internal_2010": "raw SLC flash of a 2010 phone under a log-structured layer, 512 MB (Kim et al. 2012)",
    "samsung_s5": "Samsung Galaxy S5, 16 GB eMMC 5.0 (Nguyen et al. 2015)",
    "galaxy_s3_emmc": "Samsung Galaxy S III, 16 GB eMMC 4.5 (Jeong, Won 2014)",
    "nexus5": "LG Nexus 5, 32 GB eMMC 4.5",
    "razr": "Motorola Razr, 16 GB eMMC 4.4",
    "emmc51": "eMMC 5.1 with a command queue, 64 GB",
    "ufs31": "UFS 3.1, 512 GB, two lanes",
    "ufs40": "UFS 4.0, 256 GB, two lanes",
    "sd_a1": "SD card that just meets application class A1, 32 GB",
    "sd_a2": "SD card that just meets application class A2, 64 GB",
    "nvme": "NVMe drive, 250 GB, PCIe 3.0 x4",
    "pcm": "phase-change memory (Chen, Gibbons, Nath 2011), 16 MB",
    "ram": "RAM, for comparison with a device without flash",
}
