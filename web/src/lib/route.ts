// Where the viewer is. The fragment holds the screen and everything that a person has set on it (filter, sort, pause), so that a link
// shows somebody else the same.
import { computed, signal } from "@preact/signals";

export type Params = Readonly<Record<string, string>>;
export type Route = Readonly<{ path: string; params: Params }>;
export type Given = Readonly<Record<string, string | number | undefined>>;

export function parse(fragment: string): Route {
  const text = fragment.replace(/^#/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const query = mark < 0 ? "" : text.slice(mark + 1);
  return { path: path === "" ? "/" : path, params: Object.fromEntries(new URLSearchParams(query)) };
}

/** A link to a screen. Parameters without a value are left out. */
export function to(path: string, params: Given = {}): string {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#${path}${query === "" ? "" : `?${query}`}`;
}

export const route = signal<Route>({ path: "/", params: {} });
export const path = computed(() => route.value.path);

export function go(path: string, params: Given = {}): void {
  location.hash = to(path, params);
}

/** As `go`, without an entry in the history of the page that leads on. */
export function instead(path: string, params: Given = {}): void {
  history.replaceState(null, "", to(path, params));
  route.value = parse(location.hash);
}

/** Sets parameters of this screen, in place of the entry in the history. */
export function set(changes: Given): void {
  const { path, params } = route.peek();
  instead(path, { ...params, ...changes });
}

/** Opens something on top of this screen; the browser's Back closes it. */
export function open(changes: Given): void {
  const { path, params } = route.peek();
  go(path, { ...params, ...changes });
}

/** Takes the token out of the address, if there is one, before anything else reads the address. */
export function start(takeToken: (fragment: string) => boolean): void {
  const read = () => {
    if (takeToken(location.hash)) history.replaceState(null, "", location.pathname + location.search);
    const before = route.peek().path;
    route.value = parse(location.hash);
    return before !== route.peek().path;
  };
  read();
  addEventListener("hashchange", () => {
    if (!read()) return;
    // Another screen: from its top, and for screen readers from its beginning.
    scrollTo(0, 0);
    const main = document.querySelector("main");
    main?.scrollTo(0, 0);
    main?.focus({ preventScroll: true });
  });
}
