// What the lag of a group says about the next minutes.
import { duration, rate } from "./format.ts";

export type Point = Readonly<{ ts: number; lag: number }>;

/** The time that the forecast goes by, and the least that it needs. */
const WINDOW_MS = 30_000;
const LEAST_MS = 5_000;
/** Slower than that is standing still. */
const LEAST_PER_SECOND = 0.05;

export function forecast(points: readonly Point[]): string {
  const last = points.at(-1);
  if (last === undefined) return "measuring…";
  if (last.lag === 0) return "caught up";
  const recent = points.filter((point) => point.ts >= last.ts - WINDOW_MS);
  const span = last.ts - (recent[0]?.ts ?? last.ts);
  if (span < LEAST_MS) return "measuring…";
  const slope = perSecond(recent);
  if (Math.abs(slope) < LEAST_PER_SECOND) return "not moving";
  return slope > 0 ? `growing by ${rate(slope)}/s` : `caught up in about ${duration((last.lag / -slope) * 1_000)}`;
}

/** The slope of the line through all points: one burst at the edge of the window says little. */
function perSecond(points: readonly Point[]): number {
  const mean = (of: (point: Point) => number) => points.reduce((sum, point) => sum + of(point), 0) / points.length;
  const [ts, lag] = [mean((point) => point.ts), mean((point) => point.lag)];
  const spread = points.reduce((sum, point) => sum + (point.ts - ts) ** 2, 0);
  return (points.reduce((sum, point) => sum + (point.ts - ts) * (point.lag - lag), 0) / spread) * 1_000;
}
