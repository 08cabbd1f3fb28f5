// Line icons, drawn for this dashboard on a grid of 16.
const PATHS = {
  overview: "M2 13h12M4 13V8M8 13V3M12 13V6",
  topics: "M2 4h12M2 8h12M2 12h8",
  groups: "M6 7a2.4 2.4 0 1 0 0-4.8A2.4 2.4 0 0 0 6 7ZM1.5 14c.3-3 2-4.5 4.5-4.5s4.200 1.500 4.500 4.500M11 2.600a2.300 2.300 0 0 1 0 4.300M12.200 9.800c1.400.600 2.200 2 2.400 4.200",
  letters: "M2 4h12v8.500H2ZM2 4.500l6 4.500 6-4.500",
  state: "M2.500 3h11v4h-11ZM2.500 9h11v4h-11ZM5 5h.1M5 11h.1",
  outboxes: "M2 9v4.500h12V9M8 10.500V2M5 5l3-3 3 3",
  push: "M2 8h9M8 4.500 11.500 8 8 11.500M14 3v10",
  connections: "M5 11 2.800 13.200M11 5l2.200-2.200M6 6l4 4M4 8l4 4-1 1a2.800 2.800 0 0 1-4-4ZM12 8 8 4l1-1a2.800 2.800 0 0 1 4 4Z",
  hubs: "M8 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM8 6V2M6.300 9 3 12M9.700 9 13 12",
  quotas: "M2.500 12a6 6 0 1 1 11 0M8 9l3-3",
  audit: "M4 2h8v12H4ZM6 5h4M6 8h4M6 11h2",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3.500 3.500",
  pause: "M5.500 3v10M10.500 3v10",
  play: "M5 3l8 5-8 5Z",
  copy: "M5.500 5.500h8v8h-8ZM10.500 5.500v-3h-8v8h3",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.500 6.500 12 13 4.500",
  warning: "M8 2 1.500 13.500h13ZM8 6.500v3.500M8 11.800v.1",
  theme: "M8 13A5 5 0 1 0 8 3a5 5 0 0 0 0 10ZM8 3v10",
  help: "M6 6a2 2 0 1 1 2.700 1.900C8.200 8.200 8 8.600 8 9.500M8 12v.1",
  arrow: "M3 8h10M9 4l4 4-4 4",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
