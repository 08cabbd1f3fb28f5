// A table of any length: only the rows in sight are in the document. While the pointer or the focus is on it, rows keep their places; values go on.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { count } from "../lib/format.ts";
import { lettersOn } from "../lib/keys.ts";
import { route, set } from "../lib/route.ts";
import type { Listing, Order } from "../lib/sorted.ts";

export type Column<T> = Readonly<{
  id: string;
  title: string;
  cell: (row: T) => ComponentChildren;
  /** What the column is sorted by; without it, it cannot be. */
  sort?: (row: T) => number | string;
  numeric?: boolean;
  /** Left out on narrow screens. */
  extra?: boolean;
  /** Left out on screens that are not wide, unless the rows are sorted by it. */
  spare?: boolean;
  /** Takes the width that is left. */
  wide?: boolean;
}>;

/** The order that the address or the screen asks for. */
export function orderOf<T>(columns: readonly Column<T>[], defaultSort: string): Order<T> {
  const wanted = route.value.params["sort"] ?? defaultSort;
  const column = columns.find((one) => one.sort !== undefined && one.id === wanted.replace(/^-/, "")) ?? columns.find((one) => one.sort !== undefined);
  return { name: column?.id ?? "", key: column?.sort ?? (() => 0), descending: wanted.startsWith("-") };
}

export type TableProps<T> = {
  label: string;
  listing: Listing<T>;
  columns: readonly Column<T>[];
  /** Undefined if the rows have their order from elsewhere. */
  order?: Order<T>;
  /** What begins the table at its top again, besides the order. */
  reset?: string;
  /** Rows are still being read: they do not keep their places yet. */
  filling?: boolean;
  /** Where Enter and a click lead. */
  open?: (row: T) => void;
  leadsTo?: (row: T) => string;
  /** Where it is scrolled to; the table begins there, and writes down where it is. */
  scroll?: { top: number };
  mark?: (row: T) => string | undefined;
  selected?: { has: (id: string) => boolean; toggle: (row: T) => void };
};

const ROW_PX = 33;
/** The heading, with the borders of the table. */
const HEAD_PX = 30;
const OVERSCAN = 8;
/** Rows that a table shows at least, however low the window is. */
const LEAST_ROWS = 6;

export function Table<T>(props: TableProps<T>) {
  const frame = useRef<HTMLDivElement>(null);
  /** The first row in sight, and how many there are. */
  const top = useSignal(Math.floor((props.scroll?.top ?? 0) / ROW_PX));
  const fit = useSignal(20);
  const isOver = useSignal(false);
  const hasFocus = useSignal(false);
  const cursor = useSignal<string | undefined>(undefined);
  const frozen = useRef<{ reset: string; listing: Listing<T> } | undefined>(undefined);
  const lastRows = useRef(new Map<string, T>());

  const { order, columns } = props;
  const reset = `${order?.name} ${order?.descending} ${props.reset ?? ""}`;
  const isHeld = (isOver.value || hasFocus.value) && props.filling !== true;
  if (!isHeld || props.listing.ids.length === 0) frozen.current = undefined;
  else if (frozen.current?.reset !== reset) frozen.current = { reset, listing: props.listing };
  const { ids, get } = frozen.current?.listing ?? props.listing;
  const waiting = ids === props.listing.ids ? 0 : newIn(props.listing.ids, ids);

  useEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const measure = () => {
      fit.value = Math.ceil((element.clientHeight || 600) / ROW_PX);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    if (props.scroll !== undefined) element.scrollTop = props.scroll.top;
    return () => observer.disconnect();
  }, []);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current && frame.current !== null) frame.current.scrollTop = 0;
    isFirst.current = false;
  }, [reset]);

  const first = Math.max(0, Math.min(top.value, ids.length - fit.value) - OVERSCAN);
  const last = Math.min(ids.length, top.value + fit.value + OVERSCAN);
  const cursorAt = cursor.value === undefined ? -1 : ids.indexOf(cursor.value);

  const move = (by: number) => {
    const at = ids.indexOf(cursor.peek() ?? "");
    const next = Math.min(ids.length - 1, Math.max(0, at < 0 ? top.peek() : at + by));
    cursor.value = ids[next];
    const element = frame.current;
    if (element === null) return;
    const [y, seen] = [next * ROW_PX, element.clientHeight - 2 * ROW_PX];
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y > element.scrollTop + seen) element.scrollTop = y - seen;
  };
  const open = (row: T) => {
    if (props.leadsTo !== undefined) location.hash = props.leadsTo(row);
    else props.open?.(row);
  };
  const onKey = (event: KeyboardEvent) => {
    const target = event.target;
    if (!(target instanceof HTMLElement) || event.ctrlKey || event.metaKey || event.altKey) return;
    const isGrid = target === frame.current || target.getAttribute("role") === "grid";
    if (!isGrid && !target.matches("td input, td a")) return;
    const letter = lettersOn.peek() ? event.key : "";
    const row = cursor.peek() === undefined ? undefined : get(cursor.peek() as string);
    if (event.key === "ArrowDown" || letter === "j") move(1);
    else if (event.key === "ArrowUp" || letter === "k") move(-1);
    else if (event.key === "Home") move(-ids.length);
    else if (event.key === "End") move(ids.length);
    else if (event.key === "PageDown") move(fit.peek() - 2);
    else if (event.key === "PageUp") move(2 - fit.peek());
    else if (isGrid && event.key === "Enter" && row !== undefined) open(row);
    else if (letter === "x" && row !== undefined && props.selected !== undefined) props.selected.toggle(row);
    else return;
    if (!isGrid) frame.current?.querySelector<HTMLElement>("[role=grid]")?.focus();
    event.preventDefault();
    event.stopPropagation();
  };

  const shown = ids.slice(first, last);
  const known = lastRows.current;
  lastRows.current = new Map();
  return (
    <>
      <div
        ref={frame}
        class="table"
        role="region"
        aria-label={props.label}
        tabIndex={-1}
        style={{ minHeight: `${Math.min(ids.length, LEAST_ROWS) * ROW_PX + HEAD_PX}px` }}
        onScroll={(event) => {
          top.value = Math.floor(event.currentTarget.scrollTop / ROW_PX);
          if (props.scroll !== undefined) props.scroll.top = event.currentTarget.scrollTop;
        }}
        onMouseEnter={() => { isOver.value = true; }}
        onMouseLeave={() => { isOver.value = false; }}
        onFocusIn={({ target }) => {
          // Only a focus that the keyboard has set holds the rows: a click on a heading must not hold them for good.
          hasFocus.value = target instanceof Element && target.closest("thead") === null && target.matches(":focus-visible");
        }}
        onFocusOut={(event) => { hasFocus.value = event.relatedTarget instanceof Node && event.currentTarget.contains(event.relatedTarget); }}
        onKeyDown={onKey}
      >
        <table
          role="grid"
          tabIndex={0}
          aria-label={props.label}
          aria-rowcount={ids.length + 1}
          aria-activedescendant={cursorAt >= first && cursorAt < last ? `row-${cursorAt}` : undefined}
        >
          <thead>
            <tr aria-rowindex={1}>
              {props.selected !== undefined && <th class="pick"><span class="offscreen">Selected</span></th>}
              {columns.map((one) => <Head key={one.id} column={one} order={order} />)}
            </tr>
          </thead>
          <tbody>
            {first > 0 && <tr aria-hidden="true" style={{ height: `${first * ROW_PX}px` }} />}
            {shown.map((id, index) => {
              const now = get(id);
              const row = now ?? known.get(id);
              if (row === undefined) return <tr key={id} />;
              lastRows.current.set(id, row);
              const opens = props.leadsTo !== undefined || props.open !== undefined;
              return (
                <tr
                  key={id}
                  id={`row-${first + index}`}
                  aria-rowindex={first + index + 2}
                  aria-selected={props.selected === undefined ? undefined : props.selected.has(id)}
                  class={[cursor.value === id ? "cursor" : "", now === undefined ? "gone" : "", opens ? "opens" : "", props.mark?.(row) ?? ""].filter(Boolean).join(" ")}
                  onClick={(event) => {
                    if (event.target instanceof Element && event.target.closest("a,button,input") !== null) return;
                    if (getSelection()?.isCollapsed === false) return;
                    cursor.value = id;
                    open(row);
                  }}
                >
                  {props.selected !== undefined && (
                    <td class="pick">
                      <input type="checkbox" aria-label={`Select row ${first + index + 1}`} checked={props.selected.has(id)} onChange={() => props.selected?.toggle(row)} />
                    </td>
                  )}
                  {columns.map((one) => <td key={one.id} class={classOf(one, order)}>{one.cell(row)}</td>)}
                </tr>
              );
            })}
            {last < ids.length && <tr aria-hidden="true" style={{ height: `${(ids.length - last) * ROW_PX}px` }} />}
          </tbody>
        </table>
      </div>
      <p class="held muted">{waiting > 0 && `${count(waiting)} new. `}{isHeld && ids !== props.listing.ids && "Rows keep their places while the pointer or the focus is on the table."}</p>
    </>
  );
}

function classOf<T>(column: Column<T>, order: Order<T> | undefined): string | undefined {
  const isSpare = column.spare === true && order?.name !== column.id;
  return [column.numeric === true ? "numeric" : "", column.extra === true ? "extra" : "", isSpare ? "spare" : "", column.wide === true ? "wide" : ""].filter(Boolean).join(" ") || undefined;
}

function Head<T>({ column, order }: { column: Column<T>; order: Order<T> | undefined }) {
  const isOrder = order !== undefined && order.name === column.id;
  // Numbers begin with the largest.
  const next = isOrder ? (order.descending ? column.id : `-${column.id}`) : column.numeric === true ? `-${column.id}` : column.id;
  return (
    <th scope="col" class={classOf(column, order)} aria-sort={isOrder ? (order.descending ? "descending" : "ascending") : undefined}>
      {order === undefined || column.sort === undefined ? column.title : (
        <button type="button" onClick={() => set({ sort: next })}>
          {column.title}
          <span aria-hidden="true">{isOrder ? (order.descending ? " ↓" : " ↑") : ""}</span>
        </button>
      )}
    </th>
  );
}

/** How many ids are in the new list only; the lists are long, and what is new is counted only where that is cheap. */
function newIn(fresh: readonly string[], held: readonly string[]): number {
  if (fresh.length > 10_000) return Math.max(0, fresh.length - held.length);
  const old = new Set(held);
  return fresh.reduce((sum, id) => sum + (old.has(id) ? 0 : 1), 0);
}
