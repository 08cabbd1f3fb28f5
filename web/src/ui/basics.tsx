// Small parts that every screen uses.
import { signal, useSignal } from "@preact/signals";
import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useRef } from "preact/hooks";
import { announce, spoken } from "../lib/announce.ts";
import { copy } from "../lib/clipboard.ts";
import { now } from "../lib/clock.ts";
import type { ApiError } from "../lib/api.ts";
import { duration, isTime, oneLine, shortened, time } from "../lib/format.ts";
import { connection } from "../lib/live.ts";
import { rightsShown } from "../lib/session.ts";
import { Icon, type IconName } from "./icons.tsx";

type Children = { children?: ComponentChildren };

/** A longer text may be cut where it is shown: the pointer on it shows more. */
const SHORT_CHARS = 30;
const TITLE_CHARS = 1_000;

/** A text that somebody else wrote: keys, headers, errors, subjects. */
export function Foreign({ text, most = 200 }: { text: string; most?: number }) {
  const shown = oneLine(shortened(text, most));
  const title = text.length <= SHORT_CHARS ? undefined : text.length <= most ? shown : oneLine(shortened(text, TITLE_CHARS));
  return <span class="foreign" title={title}>{shown}</span>;
}

/** Why the button that was pressed last does nothing. */
export const notice = signal<string | undefined>(undefined);

/** A button. One that is refused stays focusable, and says by which rule. */
export function Button(
  props: Children & {
    onClick: () => void;
    refused?: string | undefined;
    busy?: boolean;
    kind?: "primary" | "danger" | "quiet";
    icon?: IconName;
    label?: string;
    pressed?: boolean;
    /** The button that the space bar presses. */
    pause?: boolean;
  },
) {
  const off = props.refused !== undefined || props.busy === true;
  return (
    <button
      type="button"
      class={`button ${props.kind ?? ""}`}
      aria-disabled={off ? true : undefined}
      aria-label={props.refused === undefined ? props.label : undefined}
      aria-pressed={props.pressed}
      data-pause={props.pause === true ? "" : undefined}
      title={props.refused === undefined ? props.label : `Not possible: ${props.refused}`}
      onClick={() => {
        notice.value = props.refused === undefined ? undefined : `Not possible: ${props.refused}.`;
        if (!off) props.onClick();
      }}
    >
      {props.icon !== undefined && <Icon name={props.icon} />}
      {props.children}
      {props.refused !== undefined && <span class="offscreen">{props.children === undefined ? props.label : ""}, not possible: {props.refused}</span>}
    </button>
  );
}

/** The time since then, going on by itself. */
export function Age({ ts, of = "" }: { ts: number | undefined | null; of?: string }) {
  if (ts === undefined || ts === null) return <span class="muted">–</span>;
  if (!isTime(ts)) return <span class="muted" title={time(ts)}>no time</span>;
  const age = now.value - ts;
  // The page counts ages by the second.
  const text = age >= 1_000 ? `${duration(age)}${of}` : of === "" ? "0 s" : "just now";
  return <time dateTime={new Date(ts).toISOString()} title={time(ts)}>{text}</time>;
}

export function CopyButton({ text, label, children }: Children & { text: string | (() => string); label: string }) {
  const done = useSignal(false);
  return (
    <Button
      kind="quiet"
      icon={done.value ? "check" : "copy"}
      label={label}
      onClick={() => {
        void copy(typeof text === "string" ? text : text()).then((worked) => {
          done.value = worked;
          announce(worked ? "Copied" : "The browser does not let the page copy");
          setTimeout(() => {
            done.value = false;
          }, 1_500);
        });
      }}
    >
      {children}
    </Button>
  );
}

/** The command that does the same. What is copied is what is shown. */
export function CliCommand({ text }: { text: string }) {
  const shown = oneLine(text);
  return (
    <div class="command">
      <code>{shown}</code>
      <CopyButton text={shown} label="Copy the command" />
    </div>
  );
}

/** Why a greyed button does nothing. */
function Notice() {
  const text = notice.value;
  useEffect(() => {
    if (text === undefined) return;
    const timer = setTimeout(() => {
      notice.value = undefined;
    }, 8_000);
    return () => clearTimeout(timer);
  }, [text]);
  return <p class={text === undefined ? "offscreen" : "notice"} role="status"><Foreign text={text ?? ""} most={600} /></p>;
}

/** What the page says besides what it shows. While a dialog is open, nothing outside of it is read out or in sight, so a dialog has its own. */
export function Announcements() {
  return (
    <>
      <p class="offscreen" role="status">{spoken.value}</p>
      <Notice />
    </>
  );
}

export const InDialog = createContext(false);

/** What banners say now, so that the frame of the page does not say it again. */
export const saidByBanners = signal<readonly string[]>([]);

/** An error as it is read out at once: without an age, which would be read out again every second. */
export function Alert({ error }: { error: ApiError }) {
  return <span role="alert"><Foreign text={error.message} most={600} /> <span class="muted">({error.code})</span></span>;
}

/** What stands over the lower end of the screen, in room that every screen leaves free: it comes and goes, and nothing moves under the pointer. */
export const docked = signal<ReadonlyMap<object, ComponentChildren>>(new Map());

export function Docked({ children }: Children) {
  const key = useRef({});
  useEffect(() => {
    docked.value = new Map(docked.peek()).set(key.current, children);
  });
  useEffect(() => () => {
    const rest = new Map(docked.peek());
    rest.delete(key.current);
    docked.value = rest;
  }, []);
  return null;
}

/** A refusal or an outage: in place of data that there is none of, or docked while there is some. */
export function ErrorBanner({ error, at, retry, isBelow }: { error: ApiError | undefined; at?: number | undefined; retry?: () => void; isBelow?: boolean }) {
  const inDialog = useContext(InDialog);
  // A token that is missing or over is asked for by a dialog. The frame says that the hub is away, where a dialog does not hide that.
  const isSaid = error?.status === 401 || (error?.code === "unreachable" && connection.value.state === "waiting" && !inDialog);
  const text = isSaid ? undefined : error?.message;
  useEffect(() => {
    if (text === undefined) return;
    saidByBanners.value = [...saidByBanners.peek(), text];
    return () => {
      saidByBanners.value = saidByBanners.peek().filter((one) => one !== text);
    };
  }, [text]);
  if (error === undefined || text === undefined) return null;
  const banner = (
    <div class="banner">
      <Icon name="warning" />
      <div>
        <Alert error={error} />
        {at !== undefined && <>. What you see is <Age ts={at} /> old.</>}
      </div>
      {error.code === "forbidden" && <Button onClick={() => { rightsShown.value = true; }}>What your token allows</Button>}
      {retry !== undefined && <Button onClick={retry}>Try again</Button>}
    </div>
  );
  return isBelow === true && !inDialog ? <Docked>{banner}</Docked> : banner;
}

/** The data of a request. If a newer request failed, the data stays, greyed, with a docked banner. `hasData` says that there is some whose age nobody knows. */
export function Shown({ error, at, hasData = at !== undefined, retry, children }: Children & { error: ApiError | undefined; at?: number | undefined; hasData?: boolean; retry?: () => void }) {
  return (
    <>
      <ErrorBanner error={error} at={at} isBelow={hasData} {...(retry === undefined ? {} : { retry })} />
      <div class={error === undefined ? "shown" : "shown old"}>{children}</div>
    </>
  );
}

export function Empty({ title, children }: Children & { title: string }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** What may be wider than the screen: it scrolls by itself, by keyboard, too. */
export function Scroll({ label, children }: Children & { label: string }) {
  return <div class="scroll" tabIndex={0} role="region" aria-label={label}>{children}</div>;
}

/** Names with their values. */
export function Facts({ children }: Children) {
  return <dl class="facts">{children}</dl>;
}

export function Fact({ name, children }: Children & { name: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function Badge({ tone, children }: Children & { tone: "good" | "bad" | "warn" | "plain" }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

/** A field of a form with its label. */
export function Field({ label, children, hint }: Children & { label: string; hint?: string }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint !== undefined && <small>{hint}</small>}
    </label>
  );
}

export function Tabs({ tabs, active, choose }: { tabs: readonly (readonly [string, string])[]; active: string; choose: (id: string) => void }) {
  return (
    <div class="tabs" role="group" aria-label="Parts of this page">
      {tabs.map(([id, title]) => (
        <button key={id} type="button" aria-pressed={id === active} onClick={() => choose(id)}>{title}</button>
      ))}
    </div>
  );
}
