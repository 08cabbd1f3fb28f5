/** A UUID of version 4: nobody can guess it. */
export function uuid4(): string {
  // Pages that did not come over TLS do not have it.
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx".replace(/[xy]/g, (place, at: number) => {
    const digit = (bytes[at % 32] ?? 0) & 15;
    return (place === "x" ? digit : (digit & 3) | 8).toString(16);
  });
}

/** Many publishes have the time of the one before. */
let lastTime = -1;
let lastStamp = "";

/** A UUID of version 7: its time makes the ids of one client rise, which the hub's index likes. */
export function uuid7(time: number): string {
  if (time !== lastTime) {
    lastTime = time;
    const digits = Math.floor(time).toString(16).padStart(12, "0");
    lastStamp = `${digits.slice(0, 8)}-${digits.slice(8)}-7`;
  }
  return lastStamp + uuid4().slice(15);
}
