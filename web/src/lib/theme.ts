// Light, dark, or as the system says. Kept in this tab.
import { computed, signal } from "@preact/signals";

const KEY = "event-hub-theme";
const THEMES = ["system", "light", "dark"] as const;
export const theme = signal<(typeof THEMES)[number]>("system");

const systemIsDark = signal(false);
/** The colours in use, for what draws with them itself. */
export const isDark = computed(() => (theme.value === "system" ? systemIsDark.value : theme.value === "dark"));

export function start(): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  systemIsDark.value = system.matches;
  system.addEventListener("change", () => {
    systemIsDark.value = system.matches;
  });
  const kept = THEMES.find((one) => one === sessionStorage.getItem(KEY));
  if (kept !== undefined) theme.value = kept;
  theme.subscribe((one) => {
    document.documentElement.dataset["theme"] = one;
    sessionStorage.setItem(KEY, one);
  });
}

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.peek()) + 1) % THEMES.length] ?? "system";
}
