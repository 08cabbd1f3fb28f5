// Keyboard shortcuts. Those of one character can be switched off, for people who dictate.
import { signal } from "@preact/signals";
import { flush } from "./frames.ts";
import { go } from "./route.ts";

const KEY = "event-hub-letters";
/** How long after `g` a letter names a screen. */
const PREFIX_MS = 1_500;

export const lettersOn = signal(true);

export const SHORTCUTS: readonly (readonly [string, string])[] = [
  ["/", "go to the filter; Enter leads on to the table, Esc leaves it"],
  ["?", "this help"],
  ["j  k  ↓  ↑", "next and previous row of a table"],
  ["Enter", "open the row"],
  ["x", "select the row"],
  ["Space", "pause or resume the tail"],
  ["Esc", "close a dialog"],
];

export function setLetters(on: boolean): void {
  lettersOn.value = on;
  sessionStorage.setItem(KEY, on ? "1" : "0");
}

export function focusTable(): HTMLElement | null {
  const table = document.querySelector<HTMLElement>("main .table [role=grid]");
  table?.focus();
  return table;
}

export function start(screens: readonly (readonly [string, string, string, string])[], help: () => void): void {
  lettersOn.value = sessionStorage.getItem(KEY) !== "0";
  let prefixed = 0;
  addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    flush();
    if (target instanceof HTMLElement && target.matches("input:not([type=checkbox]),textarea,select")) {
      if (!target.matches("[data-filter]")) return;
      if (event.key === "Escape") target.blur();
      if (event.key === "Enter" && focusTable() !== null) event.preventDefault();
      return;
    }
    if (document.querySelector("dialog[open]") !== null) return;
    if (event.key === " ") {
      if (target instanceof HTMLElement && target.matches("button,a,input,[tabindex='0']:not([role=grid])")) return;
      const pause = document.querySelector<HTMLButtonElement>("button[data-pause]");
      if (pause === null) return;
      pause.click();
      event.preventDefault();
      return;
    }
    if (!lettersOn.value) return;
    const isScreen = Date.now() - prefixed <= PREFIX_MS;
    prefixed = 0;
    if (isScreen) {
      const screen = screens.find(([, , , letter]) => letter === event.key);
      if (screen === undefined) return;
      go(screen[0]);
    } else if (event.key === "/") (document.querySelector<HTMLInputElement>("main [data-filter]") ?? document.querySelector<HTMLInputElement>(".find input"))?.focus();
    else if (event.key === "?") help();
    else if (event.key === "g") prefixed = Date.now();
    else if (event.key === "j" || event.key === "k") {
      const table = focusTable();
      table?.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, bubbles: true }));
    } else return;
    event.preventDefault();
  });
}
