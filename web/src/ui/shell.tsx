// What every screen has around it: navigation, the state of the connection, the token, help.
import { useComputed, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { whoIs } from "../lib/api.ts";
import { now } from "../lib/clock.ts";
import { asApiError } from "../lib/data.ts";
import { duration, time } from "../lib/format.ts";
import { type Connection, connection, latest, retry } from "../lib/live.ts";
import { go, path, to } from "../lib/route.ts";
import { describe } from "../lib/rights.ts";
import { searchOf } from "../lib/search.ts";
import { asked, forget, rightsShown, token, tokenIn, use, who } from "../lib/session.ts";
import { lettersOn, setLetters, SHORTCUTS } from "../lib/keys.ts";
import { Age, Alert, Button, docked, Field, Foreign, Announcements, saidByBanners } from "./basics.tsx";
import { Dialog } from "./dialog.tsx";
import { Icon, type IconName } from "./icons.tsx";
import { theme, nextTheme } from "../lib/theme.ts";

export const SCREENS: readonly (readonly [path: string, title: string, icon: IconName, key: string])[] = [
  ["/", "Overview", "overview", "o"],
  ["/topics", "Topics", "topics", "t"],
  ["/groups", "Groups", "groups", "g"],
  ["/letters", "Dead letters", "letters", "d"],
  ["/state", "State", "state", "s"],
  ["/outboxes", "Outboxes", "outboxes", "b"],
  ["/push", "Push", "push", "p"],
  ["/connections", "Connections", "connections", "c"],
  ["/hubs", "Hubs", "hubs", "h"],
  ["/quotas", "Quotas", "quotas", "q"],
  ["/audit", "Audit", "audit", "a"],
];

/** Where nothing on the page is up to date. */
const IS_OLD: Readonly<Partial<Record<Connection["state"], true>>> = { waiting: true, stopped: true, inactive: true };

/** A detail screen belongs to its list. */
const PARENTS: Readonly<Record<string, string>> = { "/topic": "/topics", "/event": "/topics", "/find": "/topics", "/group": "/groups" };

export function Shell({ children, help }: { children: ComponentChildren; help: { value: boolean } }) {
  const at = PARENTS[path.value] ?? path.value;
  // On a phone the navigation is a line that scrolls.
  useEffect(() => document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [at]);
  return (
    <>
      <header class="top">
        <a class="skip" href={to(path.value)} onClick={(event) => { event.preventDefault(); document.querySelector("main")?.focus(); }}>Skip to the content</a>
        <a class="brand" href={to("/")}>event-hub</a>
        <FindBox />
        <Status />
        <Button kind="quiet" icon="theme" label={`Colours: ${theme.value}`} onClick={nextTheme} />
        <Button kind="quiet" icon="help" label="Help and shortcuts (?)" onClick={() => { help.value = true; }} />
        <Button kind="quiet" onClick={() => { rightsShown.value = true; }}><span class="offscreen">Your token</span>{who.value?.sub === undefined ? "token" : <Foreign text={who.value.sub} most={24} />}</Button>
      </header>
      <nav aria-label="Screens">
        {SCREENS.map(([href, title, icon]) => (
          <a key={href} href={to(href)} aria-current={href === at ? "page" : undefined}><Icon name={icon} /><span>{title}</span></a>
        ))}
      </nav>
      <main tabIndex={-1}>
        <div class={IS_OLD[connection.value.state] === true ? "screen old" : "screen"}>{children}</div>
      </main>
      <div class="dock">
        {[...docked.value.values()]}
        <Expiry />
        <Outage />
      </div>
      <Announcements />
      {rightsShown.value && <Account close={() => { rightsShown.value = false; }} />}
      {help.value && <Help close={() => { help.value = false; }} />}
      {asked.value !== undefined && <TokenDialog />}
    </>
  );
}

function Status() {
  const state = connection.value;
  switch (state.state) {
    case "closed": return <span class="status"><i aria-hidden="true" /> <span>not logged in</span></span>;
    case "live": return <span class="status live"><i aria-hidden="true" /> <span>live</span></span>;
    case "connecting": return <span class="status"><i aria-hidden="true" /> <span>connecting</span></span>;
    case "inactive": return <span class="status" title="Four other windows are live: a browser has few connections to one hub. This one reads again every 15 seconds, and is live when you click into it."><i aria-hidden="true" /> <span>paused: other windows are live</span></span>;
    case "hidden": return <span class="status"><i aria-hidden="true" /> <span>paused</span></span>;
    case "stopped": return <span class="status lost"><i aria-hidden="true" /> <span>stopped</span></span>;
    case "waiting": return <span class="status lost"><i aria-hidden="true" /> <span>hub away</span></span>;
  }
}

/** Why nothing is live. */
function Outage() {
  const state = connection.value;
  if (state.state !== "waiting" && state.state !== "stopped") return null;
  const { error } = state;
  if (error.status === 401 || asked.value !== undefined || saidByBanners.value.includes(error.message)) return null;
  return (
    <div class="banner">
      <Icon name="warning" />
      <div>
        <Alert error={error} />
        {state.state === "waiting" && <>. What you see is <Age ts={latest.value?.ts} /> old. The page tries again by itself.</>}
      </div>
      <Button onClick={retry}>Try again</Button>
    </div>
  );
}

/** An event by its id, or by its topic and seq; the events of a trace or a correlation id. */
function FindBox() {
  const text = useSignal("");
  const submit = () => {
    const search = searchOf(text.peek());
    switch (search?.kind) {
      case undefined: return;
      case "place": return go("/event", { topic: search.topic, seq: search.seq });
      case "id": return go("/find", { id: search.id });
      case "trace": return go("/find", { trace: search.id });
      case "correlation": return go("/find", { correlation: search.id });
    }
  };
  return (
    <form class="find" role="search" onSubmit={(event) => { event.preventDefault(); submit(); }}>
      <Icon name="search" />
      <input type="search" aria-label="Find an event by its id, by topic and seq, or events by trace id, traceparent or correlation id" placeholder="Find: id, topic and seq, traceparent, …" value={text.value} autocomplete="off" spellcheck={false} onInput={(event) => { text.value = event.currentTarget.value; }} />
    </form>
  );
}

/** Before the token runs out, a renewal keeps the page. */
function Expiry() {
  const left = useComputed(() => (who.value?.expires === undefined ? undefined : who.value.expires - now.value));
  if (left.value === undefined || left.value > 120_000 || asked.value !== undefined) return null;
  return (
    <div class="banner">
      <Icon name="warning" />
      <div>{left.value > 0 ? <><span role="alert">Your token expires</span> in {duration(left.value)}.</> : <span role="alert">Your token has expired.</span>}</div>
      <Button onClick={() => { asked.value = "Paste a new token; the page stays as it is."; }}>Renew</Button>
    </div>
  );
}

function TokenDialog() {
  const text = useSignal("");
  const problem = useSignal<string | undefined>(undefined);
  const busy = useSignal(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const submit = async () => {
    const given = tokenIn(text.peek());
    if (given === "" || busy.peek()) return;
    busy.value = true;
    problem.value = undefined;
    try {
      // The old token stays until the hub has taken the new one.
      use(given, await whoIs(given));
    } catch (error) {
      problem.value = asApiError(error).message;
      input.current?.select();
    }
    busy.value = false;
  };
  const isValid = token.value !== undefined && who.value !== undefined && (who.value.expires ?? Number.POSITIVE_INFINITY) > now.value;
  return (
    <Dialog title="Token" {...(isValid ? { close: () => { asked.value = undefined; } } : {})}>
      <form onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <p><Foreign text={asked.value ?? ""} most={400} /></p>
        <Field label="Token" hint="It stays in this tab. `event-hub serve` prints a link with one; `event-hub token --scope 'subscribe:**'` makes one.">
          <input ref={input} type="password" autocomplete="off" spellcheck={false} value={text.value} aria-invalid={problem.value !== undefined} onInput={(event) => { text.value = event.currentTarget.value; }} />
        </Field>
        {problem.value !== undefined && <p class="problem" role="alert"><Foreign text={problem.value} most={400} /></p>}
        <footer><button class="button primary" type="submit" aria-disabled={busy.value ? true : undefined}>Continue</button></footer>
      </form>
    </Dialog>
  );
}

function Account({ close }: { close: () => void }) {
  const me = who.value;
  return (
    <Dialog title="Your token" close={close}>
      <p>{me?.sub === undefined ? "It has no subject" : <>Subject <Foreign text={me.sub} /></>}{me?.expires !== undefined && <>, valid until {time(me.expires)}</>}.</p>
      <p>Rules, the first that matches decides:</p>
      <ol>{me?.rules.map((rule, index) => <li key={index}><code>{describe(rule)}</code></li>)}</ol>
      <footer>
        <Button onClick={() => { close(); asked.value = "Paste another token; the page stays as it is."; }}>Another token…</Button>
        <Button onClick={() => { close(); forget(); }}>Log out</Button>
      </footer>
    </Dialog>
  );
}

function Help({ close }: { close: () => void }) {
  return (
    <Dialog title="Help" close={close}>
      <table class="plain">
        <thead><tr><th scope="col">Key</th><th scope="col">Does</th></tr></thead>
        <tbody>
          {SHORTCUTS.map(([keys, what]) => <tr key={keys}><td><kbd>{keys}</kbd></td><td>{what}</td></tr>)}
          {SCREENS.map(([href, title, , letter]) => <tr key={href}><td><kbd>g</kbd> <kbd>{letter}</kbd></td><td>{title}</td></tr>)}
        </tbody>
      </table>
      <label class="check"><input type="checkbox" checked={lettersOn.value} onChange={(event) => setLetters(event.currentTarget.checked)} /> Shortcuts of a single character (letters, <kbd>/</kbd>, <kbd>?</kbd>)</label>
      <p>The pointer over a table, or the focus in it, keeps its rows where they are. Filter, order and pause are in the address: a link shows somebody else the same.</p>
      <p>Everything here can be done on the command line, too: <code>event-hub --help</code>.</p>
    </Dialog>
  );
}
