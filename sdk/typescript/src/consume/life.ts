import type { HubError } from "../errors.ts";

/** The two promises of a subscription: that the hub has accepted it, and that it is over. */
export interface Life {
  readonly opened: Promise<void>;
  readonly closed: Promise<HubError | undefined>;
  accepted(): void;
  refused(why: HubError): void;
  ended(error: HubError | undefined): void;
}

export function createLife(): Life {
  const life: Partial<Life> = {};
  const opened = new Promise<void>((resolve, reject) => {
    life.accepted = resolve;
    life.refused = reject;
  });
  // It may be that nobody asks.
  opened.catch(() => undefined);
  const closed = new Promise<HubError | undefined>((resolve) => {
    life.ended = resolve;
  });
  return Object.assign(life, { opened, closed }) as Life;
}
