// Ids as MongoDB's drivers write them.

/** A session of a driver; its class of binary values is that of its id. */
export interface SessionWithId {
  readonly id?: { readonly id: unknown } | undefined;
}

const UUID_SUBTYPE = 4;

type BinaryClass = new (bytes: Uint8Array, subtype: number) => unknown;

/** The id as a binary value of the caller's driver. Its class is that of the session's own id; without one the text does as well. */
export function uuidOf(session: SessionWithId, id: string): unknown {
  const own: unknown = session.id?.id;
  if (typeof own !== "object" || own === null || !("_bsontype" in own) || own._bsontype !== "Binary") return id;
  const bytes = Uint8Array.from(id.replaceAll("-", "").match(/../g) ?? [], (pair) => parseInt(pair, 16));
  return new (own.constructor as BinaryClass)(bytes, UUID_SUBTYPE);
}
