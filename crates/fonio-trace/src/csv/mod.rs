//! Tables of requests as text: MSR Cambridge, MQSim and DiskSim, and any CSV by a column mapping.
//!
//! A mapping is a list of `KEY=COLUMN[:UNIT]`, where a column is named as in the header or by its number from 1:
//!
//! | key | what | units |
//! |---|---|---|
//! | `time`, `issued` | when the request was issued (the same key twice) | `s`, `ms`, `us`, `ns`, `100ns`, `filetime` |
//! | `queued`, `inserted`, `completed` | the other instants | the same |
//! | `latency` | from issue (else queue) to completion | `s`, `ms`, `us`, `ns`, `100ns` |
//! | `op` | read, write, … | `words`, `rwbs`, `0-is-read`, `1-is-read` |
//! | `offset`, `size` | where, how much | `bytes`, `sectors`, `kb`, `kib`, `4kib` |
//! | `device` | a number, `8,0`, `8:0`, or a name | |
//! | `process`, `tid`, `cpu` | who and where | |
//! | `delimiter` | between columns: a punctuation mark, `comma`, `semicolon`, `tab`, `space` | |
//! | `header` | `yes` (the default) or `no` | |

mod mapping;

pub use mapping::{Column, Delimiter, Mapping, MappingError, OpWords, SizeUnit, TimeUnit};
