//! A process that is started to be killed.
use anyhow::Result;

pub const VICTIM: &str = "store-victim";
#[derive(Debug)]
pub struct Victim {}
impl Victim {
    pub fn parse(_words: impl Iterator<Item = String>) -> Result<Self, String> {
        Ok(Self {})
    }
    pub async fn run(self) -> Result<()> {
        Ok(())
    }
}
