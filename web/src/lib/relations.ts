// What headers say about the events that an event belongs to.

/** A parameter of `/replay`, the option of the command line that stands for it, and what people call it. */
export type Relation = Readonly<{ parameter: "correlationId" | "traceId"; option: string; name: string; id: string }>;

/** `traceparent` of W3C Trace Context: the second part names the trace. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

/** The id of the trace that a `traceparent` names. */
export function traceOf(traceparent: string): string | undefined {
  return TRACEPARENT.exec(traceparent)?.[1];
}

/** As the hub reads them: names of W3C headers whatever their case, the id of a correlation in the one header or the other. */
export function relationsOf(headers: Readonly<Record<string, string>> = {}): readonly Relation[] {
  const named = (wanted: string) => Object.entries(headers).find(([name]) => name.toLowerCase() === wanted)?.[1];
  const correlation = headers["correlationId"] ?? headers["x-correlation-id"];
  const trace = traceOf(named("traceparent") ?? named("ce-traceparent") ?? "");
  return [
    ...(correlation === undefined ? [] : [{ parameter: "correlationId", option: "--correlation-id", name: "correlation id", id: correlation } as const]),
    ...(trace === undefined ? [] : [{ parameter: "traceId", option: "--trace-id", name: "trace", id: trace } as const]),
  ];
}
