// Copies and downloads.

/** Copies a text. Without HTTPS browsers have no clipboard API, so there is the old way, too. */
export async function copy(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // No permission: the old way needs none.
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "offscreen";
  // Outside an open dialog nothing can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  const before = document.activeElement;
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}

export function download(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  follow(address, name);
  setTimeout(() => URL.revokeObjectURL(address), 1_000);
}

/** Has the browser download an address of this hub. */
export function follow(address: string, name: string): void {
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name.replace(/[^A-Za-z0-9._-]/g, "_");
  anchor.click();
}
