use proptest::prelude::*;
use rustc_hash::FxHashMap;

use super::oracle::Oracle;
use super::*;

fn generation(number: u32) -> Generation {
    Generation::new(number).unwrap()
}

/// A fact about number 7.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Ended(u64),
    Is(u64, u32),
    Lost(u64, u64),
    LostOf(u64, u64),
}

fn noted(facts: &[Fact], count_max: usize) -> Lives<u32> {
    let mut lives = Lives { count_max, ..Lives::default() };
    for fact in facts {
        match *fact {
            Fact::Ended(at) => lives.ended(7, Timestamp(at)),
            Fact::Is(at, seen) => lives.is(7, Timestamp(at), generation(seen)),
            Fact::Lost(after, until) => lives.lost(Timestamp(after), Timestamp(until)),
            Fact::LostOf(after, until) => lives.lost_of(7, Timestamp(after), Timestamp(until)),
        }
    }
    lives
}

fn oracle(facts: &[Fact]) -> Oracle {
    let mut oracle = Oracle::default();
    for fact in facts {
        match *fact {
            Fact::Ended(at) => oracle.ends.push(Timestamp(at)),
            Fact::Is(at, seen) => oracle.sightings.push((Timestamp(at), generation(seen))),
            Fact::Lost(after, until) | Fact::LostOf(after, until) if after < until => {
                oracle.gaps.push((Timestamp(after), Timestamp(until)));
            }
            _ => {}
        }
    }
    oracle
}

#[test]
fn pieces_of_a_number() {
    let check = |facts: &[Fact], expected: &str| {
        let told = |piece: &Piece<u32>| match piece.life.map(|life| life.told) {
            Some(Told::By(generation)) => format!("g{generation}"),
            Some(Told::Again(generation, at)) => format!("g{generation}@{}", at.0),
            Some(Told::After(_)) => "-".to_owned(),
            None => "?".to_owned(),
        };
        let until = |at: Timestamp| if at == Timestamp::MAX { String::new() } else { format!(" {} ", at.0) };
        let pieces = noted(facts, FACTS_MAX).pieces(7);
        let shown: String = pieces.iter().map(|piece| told(piece) + &until(piece.until)).collect();
        assert_eq!(shown, expected, "{facts:?}");
    };
    use Fact::*;
    check(&[], "-");
    check(&[Ended(20), Ended(10), Ended(20)], "- 10 - 20 -");
    check(&[Ended(20), Is(10, 1)], "g1 20 -");
    // The time of an end still belongs to the life that ended.
    check(&[Ended(20), Is(20, 1), Is(21, 2)], "g1 20 g2");
    // An inode that was evicted and read again is the same file.
    check(&[Is(10, 1), Ended(20), Is(30, 1), Ended(40)], "g1 40 -");
    check(&[Is(10, 1), Ended(20), Ended(25), Is(30, 2)], "g1 20 - 25 g2");
    // An end is missing.
    check(&[Is(10, 1), Is(20, 2), Ended(30)], "g1 10 ? 19 g2 30 -");
    check(&[Ended(10), Lost(15, 30), Ended(40)], "- 10 - 15 ? 30 - 40 -");
    check(&[Is(10, 1), LostOf(15, 30), Is(31, 1)], "g1");
    check(&[Is(10, 1), LostOf(15, 30), Is(20, 2), Is(22, 2)], "g1 15 ? 19 g2 22 ? 30 -");
    // Two lives, with another one between them, have equal generations.
    check(&[Is(30, 1), Ended(10), Is(5, 1), Is(15, 2), Ended(20)], "g1 10 g2 20 g1@30");
    // Two lives in a row that happen to have equal generations count as one life. This happens once in four
    // billion times.
    check(&[Is(5, 1), Ended(10), Is(15, 1)], "g1");
}

fn facts(time_max: u64) -> impl Strategy<Value = Vec<Fact>> {
    let at = 0..=time_max;
    let fact = prop_oneof![
        4 => at.clone().prop_map(Fact::Ended),
        4 => (at.clone(), 1_u32..4).prop_map(|(at, seen)| Fact::Is(at, seen)),
        1 => (at.clone(), 0_u64..6).prop_map(|(after, time)| Fact::Lost(after, after + time)),
        1 => (at, 0_u64..6).prop_map(|(after, time)| Fact::LostOf(after, after + time)),
    ];
    prop::collection::vec(fact, 0..12)
}

/// What happened: the files that had the number one after the other, each with its end, its generation, the
/// times at which its generation was seen, and the times at which the kernel evicted its inode.
#[derive(Clone, Debug)]
struct Truth {
    files: Vec<(u64, u64, Vec<u64>, Vec<u64>)>,
    gaps: Vec<(u64, u64)>,
    /// The seed for the order of the facts.
    seed: u64,
}

fn truth() -> impl Strategy<Value = Truth> {
    let times = |max| prop::collection::vec(any::<prop::sample::Index>(), 0..max);
    let file = (1_u64..8, 1_u64..20, times(4), prop_oneof![4 => times(1), 1 => times(3)]);
    let gaps = prop::collection::vec((0_u64..120, 1_u64..20), 0..3);
    (prop::collection::vec(file, 1..8), gaps, any::<u64>()).prop_map(|(files, gaps, seed)| {
        let mut time = 0;
        let mut placed = Vec::new();
        for (pause, length, seen, evicted) in files {
            let birth = time + pause;
            time = birth + length;
            let times = |of: Vec<prop::sample::Index>| {
                of.iter().map(|at| birth + at.index(length as usize) as u64).collect()
            };
            placed.push((birth, time, times(seen), times(evicted)));
        }
        let gaps = gaps.into_iter().map(|(after, length)| (after, after + length)).collect();
        Truth { files: placed, gaps, seed }
    })
}

impl Truth {
    fn is_in_gap(&self, at: u64) -> bool {
        self.gaps.iter().any(|(after, until)| *after < at && at <= *until)
    }

    /// Returns the reported facts, in a random order.
    fn shown(&self) -> Vec<Fact> {
        let mut facts: Vec<Fact> = self.gaps.iter().map(|gap| Fact::Lost(gap.0, gap.1)).collect();
        for (uid, (_, end, seen, evicted)) in (1..).zip(&self.files) {
            facts.extend(evicted.iter().map(|at| Fact::Ended(*at)));
            facts.extend(seen.iter().map(|at| Fact::Is(*at, uid)));
            facts.extend((!self.is_in_gap(*end)).then_some(Fact::Ended(*end)));
        }
        crate::Random::new(self.seed).shuffle(&mut facts);
        facts
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn lives_follow_the_rules(facts in facts(40)) {
        let (lives, oracle) = (noted(&facts, FACTS_MAX), oracle(&facts));
        // If a generation is seen again after another generation, only the first and last of its sightings
        // are kept.
        let mut seen = oracle.sightings.clone();
        seen.sort_unstable();
        let is_one = seen.windows(2).all(|pair| pair[0].0 < pair[1].0 || pair[0].1 == pair[1].1);
        let mut runs: Vec<Generation> = seen.into_iter().map(|(_, generation)| generation).collect();
        runs.dedup();
        let count = runs.len();
        runs.sort_unstable();
        runs.dedup();
        let is_possible = is_one && count == runs.len();
        let pieces = lives.pieces(7);
        for at in (0..60).map(Timestamp) {
            let told = lives.at(7, at).map(|life| life.told);
            if is_possible {
                prop_assert_eq!(told, oracle.at(at), "at {}", at.0);
            }
            let piece = pieces.iter().find(|piece| piece.after < at && at <= piece.until);
            if at > Timestamp(0) {
                prop_assert_eq!(told, piece.unwrap().life.map(|life| life.told), "piece at {}", at.0);
            }
        }
    }

    #[test]
    fn a_life_is_one_file(truth in truth(), count_max in prop_oneof![Just(FACTS_MAX), 1_usize..9]) {
        let lives = noted(&truth.shown(), count_max);
        prop_assert!(lives.known.values().map(Timeline::len).sum::<usize>() == lives.count);
        prop_assert!(lives.count <= count_max.max(1), "{} facts", lives.count);
        let mut files_of: FxHashMap<Life<u32>, usize> = FxHashMap::default();
        for (uid, (birth, end, seen, evicted)) in truth.files.iter().enumerate() {
            let mut all = Vec::new();
            for at in *birth..=*end {
                let life = lives.at(7, Timestamp(at));
                if let Some(life) = life {
                    prop_assert_eq!(*files_of.entry(life).or_insert(uid), uid, "{:?} at {}", life, at);
                }
                if count_max == FACTS_MAX {
                    prop_assert!(life.is_some() || truth.is_in_gap(at), "unknown at {}", at);
                    prop_assert!(life.is_some() || seen.iter().all(|seen| *seen != at));
                }
                all.extend(life);
            }
            all.dedup();
            let is_in_gap = |gap: &(u64, u64)| gap.0 < *end && gap.1 >= *birth;
            let is_disturbed = !evicted.is_empty() || truth.gaps.iter().any(is_in_gap);
            prop_assert!(is_disturbed || count_max < FACTS_MAX || all.len() == 1, "{:?}", all);
        }
    }
}
