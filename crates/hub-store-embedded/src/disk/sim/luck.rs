//! What survives a power loss, and chance.

/// splitmix64.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A part of something of this length: nothing, all, or any.
    pub(super) fn part(&mut self, len: usize) -> usize {
        match self.below(3) {
            0 => 0,
            1 => len,
            _ => self.below(len as u64 + 1) as usize,
        }
    }
}

/// The points of the first and the last change that is pending.
pub(super) type Span = (u64, u64);

/// Which changes survive.
#[derive(Clone, Copy)]
enum Fate {
    Nothing,
    Everything,
    /// What came before a point, and parts of that.
    Before(u64),
    /// What came after a point, and parts of that: the disk wrote in another order.
    After(u64),
    /// Each for itself, with a chance in eighths.
    Each(u64),
}

impl Fate {
    fn before_or_after(rng: &mut Rng, (first, last): Span, before: bool) -> Self {
        let point = first + rng.below(last - first + 1);
        if before { Self::Before(point) } else { Self::After(point) }
    }

    fn each(rng: &mut Rng) -> Self {
        Self::Each(1 + rng.below(7))
    }
}

/// The luck of one power loss.
pub(super) struct Luck {
    rng: Rng,
    /// The fate of all, or each file has its own.
    common: Option<Fate>,
}

impl Luck {
    /// `span` is that of all that is pending, bytes and names.
    pub(super) fn new(luck: u64, span: Span) -> Self {
        let mut rng = Rng::new(luck);
        let common = match luck % 8 {
            0 => Some(Fate::Nothing),
            1 => Some(Fate::Everything),
            kind @ (2 | 3) => Some(Fate::before_or_after(&mut rng, span, kind == 2)),
            4 | 5 => Some(Fate::each(&mut rng)),
            _ => None,
        };
        Self { rng, common }
    }

    /// The luck of one file, or of the names. `span` is that of its changes.
    pub(super) fn of(&mut self, span: Span) -> Survival<'_> {
        let rng = &mut self.rng;
        let fate = self.common.unwrap_or_else(|| match rng.below(6) {
            0 => Fate::Nothing,
            1 => Fate::Everything,
            kind @ (2 | 3) => Fate::before_or_after(rng, span, kind == 2),
            _ => Fate::each(rng),
        });
        Survival { fate, rng }
    }
}

/// Decides for one change after the other.
pub(super) struct Survival<'a> {
    fate: Fate,
    rng: &'a mut Rng,
}

impl Survival<'_> {
    /// Whether the change made at this point survives, or the next piece of it.
    pub(super) fn of(&mut self, op: u64) -> bool {
        match self.fate {
            Fate::Nothing => false,
            Fate::Everything => true,
            Fate::Before(point) | Fate::After(point) if op == point => self.rng.below(2) == 0,
            Fate::Before(point) => op < point,
            Fate::After(point) => op > point,
            Fate::Each(eighths) => self.rng.below(8) < eighths,
        }
    }
}
