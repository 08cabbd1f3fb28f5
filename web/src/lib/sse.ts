// Server-sent events out of the pieces of a response.

export type Message = Readonly<{ event: string; data: string }>;

export class EventReader {
  #rest = "";
  /** Where the search for the end of the message goes on. */
  #searched = 0;

  /** The messages that are complete with this piece. */
  push(piece: string): Message[] {
    this.#rest += piece.includes("\r") ? piece.replaceAll("\r", "") : piece;
    const found: Message[] = [];
    let from = 0;
    for (let end = this.#rest.indexOf("\n\n", this.#searched); end >= 0; end = this.#rest.indexOf("\n\n", from)) {
      const message = parse(this.#rest.slice(from, end));
      if (message !== undefined) found.push(message);
      from = end + 2;
    }
    this.#rest = this.#rest.slice(from);
    this.#searched = Math.max(0, this.#rest.length - 1);
    return found;
  }
}

/** A message; undefined if it has no data, as comments that keep the connection. */
function parse(text: string): Message | undefined {
  let event = "message";
  let data: string | undefined;
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    const field = line.slice(0, colon);
    if (field === "event") event = value;
    else if (field === "data") data = data === undefined ? value : `${data}\n${value}`;
  }
  return data === undefined ? undefined : { event, data };
}
