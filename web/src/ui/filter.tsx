// A text field whose value is a parameter of the address.
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { route, set } from "../lib/route.ts";

/** Pause after the last key before the address changes. */
const PAUSE_MS = 120;

/** Whether one of the texts of a row has the text of the filter in it. */
export function matcher<T>(texts: (row: T) => readonly string[]): (row: T) => boolean {
  const wanted = (route.value.params["q"] ?? "").toLowerCase();
  return (row) => texts(row).some((text) => text.toLowerCase().includes(wanted));
}

export function FilterBox({ label, param = "q", placeholder = "Filter", main = param === "q" }: { label: string; param?: string; placeholder?: string; main?: boolean }) {
  const text = useSignal(route.value.params[param] ?? "");
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const input = useRef<HTMLInputElement>(null);
  // While the next screen is drawn, not after it: it is not for that one.
  useLayoutEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    const given = route.value.params[param] ?? "";
    if (document.activeElement !== input.current) text.value = given;
  }, [route.value.params[param]]);
  return (
    <input
      ref={input}
      type="search"
      class="filter"
      aria-label={label}
      placeholder={main ? `${placeholder}  /` : placeholder}
      aria-keyshortcuts={main ? "/" : undefined}
      data-filter={main ? "" : undefined}
      value={text.value}
      autocomplete="off"
      spellcheck={false}
      onInput={(event) => {
        text.value = event.currentTarget.value;
        clearTimeout(timer.current);
        timer.current = setTimeout(() => set({ [param]: text.peek() === "" ? undefined : text.peek() }), PAUSE_MS);
      }}
    />
  );
}
