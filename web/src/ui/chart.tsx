// A line chart over time with uPlot, drawn once a second, and the same numbers as a table for those who cannot see it.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { clock } from "../lib/format.ts";
import { isDark } from "../lib/theme.ts";

export type Line = Readonly<{ name: string; color: string; values: readonly (number | undefined)[]; dash?: boolean }>;

/** Steps between the lines of a chart of whole numbers. */
const WHOLE_STEPS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

export function Chart(props: { title: string; times: readonly number[]; lines: readonly Line[]; shown: (value: number) => string; span?: number; isWhole?: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const asTable = useSignal(false);
  /** The point under the pointer. */
  const pointed = useSignal<number | undefined>(undefined);
  const style = `${props.lines.map((line) => line.name).join("|")} ${isDark.value}`;

  useEffect(() => {
    const element = host.current;
    if (element === null || asTable.value) return;
    const color = (name: string) => resolved(element, name);
    const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const made = new uPlot(
      {
        width: element.clientWidth || 400,
        height: 150,
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        hooks: { setCursor: [(of) => { pointed.value = of.cursor.idx ?? undefined; }] },
        scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
        axes: [{ ...axis, space: 80, size: 28, values: (_, ticks) => ticks.map((tick) => clock(tick * 1_000)) }, { ...axis, size: 56, ...(props.isWhole === true ? { incrs: WHOLE_STEPS } : {}), values: (_, ticks) => ticks.map(props.shown) }],
        series: [{}, ...props.lines.map((line) => ({ label: line.name, stroke: color(line.color), width: 1.8, ...(line.dash === true ? { dash: [5, 4] } : {}), points: { show: false } }))],
      },
      [[], ...props.lines.map(() => [])] as unknown as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: 150 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [style, asTable.value]);

  useEffect(() => {
    const end = props.times.at(-1) ?? Date.now();
    const data = [props.times.map((ts) => ts / 1_000), ...props.lines.map((line) => line.values.map((value) => value ?? null))];
    plot.current?.setData(data as uPlot.AlignedData, false);
    plot.current?.setScale("x", { min: (end - (props.span ?? 120_000)) / 1_000, max: end / 1_000 });
  });

  const from = Math.max(0, props.times.length - 12);
  return (
    <figure class="chart">
      <figcaption>
        <strong>{props.title}</strong>
        {pointed.value !== undefined && props.times[pointed.value] !== undefined && <span class="muted">{clock(props.times[pointed.value] as number)}</span>}
        {props.lines.map((line) => (
          <span key={line.name} class="legend">
            <svg viewBox="0 0 18 4" aria-hidden="true"><line x1="0" y1="2" x2="18" y2="2" stroke={`var(${line.color})`} stroke-width="2.500" stroke-dasharray={line.dash === true ? "5 3" : undefined} /></svg>
            {line.name} <b>{label(line.values[pointed.value ?? line.values.length - 1], props.shown)}</b>
          </span>
        ))}
        <button type="button" class="button quiet" aria-pressed={asTable.value} onClick={() => { asTable.value = !asTable.value; }}>Table</button>
      </figcaption>
      {asTable.value ? (
        <table class="plain">
          <thead><tr><th scope="col">Time</th>{props.lines.map((line) => <th key={line.name} scope="col" class="numeric">{line.name}</th>)}</tr></thead>
          <tbody>
            {props.times.slice(from).map((ts, index) => (
              <tr key={ts}>
                <th scope="row">{clock(ts)}</th>
                {props.lines.map((line) => {
                  return <td key={line.name} class="numeric">{label(line.values[from + index], props.shown)}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <div ref={host} class="plot" role="img" aria-label={`${props.title} over time; the button Table shows the numbers`} />
      )}
    </figure>
  );
}

function label(value: number | undefined, shown: (value: number) => string): string {
  return value === undefined ? "–" : shown(value);
}

/** The colour behind a name, for a canvas, which does not know names. */
function resolved(element: HTMLElement, name: string): string {
  const before = element.style.color;
  element.style.color = `var(${name})`;
  const color = getComputedStyle(element).color;
  element.style.color = before;
  return color;
}

/** A small line without axes; it begins where values are known. */
export function Sparkline({ values }: { values: readonly (number | undefined)[] }) {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const points = values.flatMap((value, index) => (value === undefined ? [] : [`${((index / Math.max(1, values.length - 1)) * 78 + 1).toFixed(1)},${(17 - (value / most) * 15).toFixed(1)}`]));
  return <svg class="sparkline" viewBox="0 0 80 18" aria-hidden="true"><polyline points={points.join(" ")} /></svg>;
}
