//! How much work checks may do.

use crate::bounds::{BYTES_PER_STEP, STEPS, STEPS_PER_VALUE};

/// The steps that one check, or several checks together, may take.
///
/// A budget begins with a fixed number of steps. Each payload that is read adds steps for its values and its bytes; each check takes
/// steps from the budget. One budget for all payloads of a batch keeps the fixed number from counting once per payload:
///
/// ```
/// use hub_schema::{Budget, Schema};
/// let schema = Schema::compile(br#"{"type": "integer"}"#)?;
/// let mut budget = Budget::default();
/// for payload in ["1", "2", "3"] {
///     assert!(schema.check_within(payload.as_bytes(), &mut budget).is_ok());
/// }
/// assert_eq!(budget.spent(), 3);
/// # Ok::<(), hub_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Budget {
    granted: u64,
    left: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { granted: STEPS, left: STEPS }
    }
}

impl Budget {
    /// Adds the steps for the values and the bytes of a payload.
    pub(crate) fn add_payload(&mut self, bytes: usize, values: usize) {
        let steps = STEPS_PER_VALUE * values as u64 + bytes as u64 / BYTES_PER_STEP;
        self.granted += steps;
        self.left += steps;
    }

    /// Steps that were granted so far.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Steps that checks have taken.
    pub fn spent(&self) -> u64 {
        self.granted - self.left
    }

    /// Takes steps, if there are as many left.
    #[inline]
    pub(crate) fn take(&mut self, steps: u64) -> bool {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}
