//! Where spans of traced events go: to a collector, if the configuration names one.

#[cfg(feature = "otlp")]
use super::otlp::Exporter;
use crate::config::Tracing;
use anyhow::Result;
use hub_core::trace::SpanRecorder;
use std::sync::Arc;

/// The recorder of spans, if there is one.
#[derive(Clone, Default)]
pub struct Spans {
    #[cfg(feature = "otlp")]
    exporter: Option<Arc<Exporter>>,
}

impl Spans {
    /// Starts to send spans, if the configuration says where.
    ///
    /// # Errors
    /// If the address cannot be used.
    #[cfg(feature = "otlp")]
    pub fn start(tracing: Option<&Tracing>) -> Result<Self> {
        Ok(Self { exporter: tracing.map(Exporter::start).transpose()? })
    }

    /// This build cannot send spans. A setting in the file was refused before; the variable may be meant for other programs.
    ///
    /// # Errors
    /// Never.
    #[cfg(not(feature = "otlp"))]
    pub fn start(tracing: Option<&Tracing>) -> Result<Self> {
        if let Some(Tracing { otlp_endpoint, .. }) = tracing {
            tracing::warn!(otlp_endpoint, "spans are not sent: this build does not have the feature `otlp`");
        }
        Ok(Self::default())
    }

    /// What the bus and the drainers record spans with.
    pub fn recorder(&self) -> Option<Arc<dyn SpanRecorder>> {
        #[cfg(feature = "otlp")]
        return self.exporter.clone().map(|exporter| exporter as Arc<dyn SpanRecorder>);
        #[cfg(not(feature = "otlp"))]
        None
    }

    /// Sends the last spans.
    pub async fn stop(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            // One that hangs is left behind.
            let _ = tokio::task::spawn_blocking(move || exporter.stop()).await;
        }
    }
}
